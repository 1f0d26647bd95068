// A Worker that also starts from file://, where browsers refuse one: the site's search needs it when the site is a folder.
// The worker's script runs in a hidden frame of this page, with the functions that it has in a real worker.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      frame.title = "search";
      document.body.append(frame);
      const inside = frame.contentWindow;
      const base = new URL(url, document.baseURI);
      const load = (address) =>
        new Promise((resolve, reject) => {
          const script = inside.document.createElement("script");
          script.src = new URL(address, base).href;
          script.onload = resolve;
          script.onerror = reject;
          inside.document.body.append(script);
        });
      inside.importScripts = (...addresses) => addresses.reduce((before, one) => before.then(() => load(one)), Promise.resolve());
      inside.postMessage = (data) => {
        const event = new MessageEvent("message", { data });
        this.dispatchEvent(event);
        if (this.onmessage) this.onmessage(event);
      };
      this.inside = inside;
      this.ready = load(base.href);
    }

    postMessage(data) {
      this.ready.then(() => this.inside.dispatchEvent(new MessageEvent("message", { data })));
    }
  };
}
