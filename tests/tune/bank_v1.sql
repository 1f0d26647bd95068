BEGIN TRANSACTION;
CREATE TABLE machines (
	"key" VARCHAR NOT NULL, 
	properties JSON NOT NULL, 
	PRIMARY KEY ("key")
);
INSERT INTO "machines" VALUES('074ecc8cd4687d0a5f943dfc9ae500accb5769fa89e9d85ec4b9b01cd9df15e8','{"device": "cpu", "model": "a test", "capability": "NONE", "num_threads": 2, "torch": "2.13.0", "compiler": ""}');
CREATE TABLE meta (
	name VARCHAR NOT NULL, 
	value VARCHAR NOT NULL, 
	PRIMARY KEY (name)
);
INSERT INTO "meta" VALUES('schema_version','1');
INSERT INTO "meta" VALUES('jumar_version','0.1.0');
INSERT INTO "meta" VALUES('created','2026-11-21T09:36:39.250+00:00');
CREATE TABLE slots (
	id INTEGER NOT NULL, 
	task_key VARCHAR NOT NULL, 
	machine_key VARCHAR NOT NULL, 
	kind VARCHAR NOT NULL, 
	policy JSON, 
	base JSON NOT NULL, 
	gain JSON, 
	min_gain DOUBLE NOT NULL, 
	tried JSON NOT NULL, 
	created VARCHAR NOT NULL, 
	updated VARCHAR NOT NULL, 
	PRIMARY KEY (id), 
	UNIQUE (task_key, machine_key, kind), 
	FOREIGN KEY(task_key) REFERENCES tasks ("key"), 
	FOREIGN KEY(machine_key) REFERENCES machines ("key")
);
INSERT INTO "slots" VALUES(1,'66dfa9c1f2a6aee51a0fc1b549c7112483b93823c5d568f75a507bcf2cb8f05e','074ecc8cd4687d0a5f943dfc9ae500accb5769fa89e9d85ec4b9b01cd9df15e8','Format','{"kind": "Format", "provider": "channels_last", "settings": {}}','[]','{"before_us": 149.99625, "after_us": 100.0, "mean_before_us": 149.99625, "mean_after_us": 100.0, "ratio": 1.4999624995312384, "ratio_low": 1.499625, "ratio_high": 1.5003, "num_pairs": 20, "calls_per_sample": 1, "num_disturbed": 0, "confidence": 0.95}',0.02,'[{"policy": {"kind": "Format", "provider": "channels_last", "settings": {}}, "outcome": {"status": "measured", "detail": "", "phase": "measure", "gain": {"before_us": 149.99625, "after_us": 100.0, "mean_before_us": 149.99625, "mean_after_us": 100.0, "ratio": 1.4999624995312384, "ratio_low": 1.499625, "ratio_high": 1.5003, "num_pairs": 20, "calls_per_sample": 1, "num_disturbed": 0, "confidence": 0.95}, "worst_error": 0.0, "allowed_error": 1e-06}}]','2026-11-21T09:36:39.275+00:00','2026-11-21T09:36:39.275+00:00');
INSERT INTO "slots" VALUES(2,'66dfa9c1f2a6aee51a0fc1b549c7112483b93823c5d568f75a507bcf2cb8f05e','074ecc8cd4687d0a5f943dfc9ae500accb5769fa89e9d85ec4b9b01cd9df15e8','Impl','null','[{"kind": "Format", "provider": "channels_last", "settings": {}}]','null',0.02,'[{"policy": {"kind": "Impl", "provider": "inductor", "settings": {}}, "outcome": {"status": "measured", "detail": "", "phase": "measure", "gain": {"before_us": 89.99775, "after_us": 100.0, "mean_before_us": 89.99775000000001, "mean_after_us": 100.0, "ratio": 0.899977499718743, "ratio_low": 0.8997750000000001, "ratio_high": 0.90018, "num_pairs": 20, "calls_per_sample": 1, "num_disturbed": 0, "confidence": 0.95}, "worst_error": 0.0, "allowed_error": 1e-06}}]','2026-11-21T09:36:39.301+00:00','2026-11-21T09:36:39.302+00:00');
CREATE TABLE tasks (
	"key" VARCHAR NOT NULL, 
	operator VARCHAR NOT NULL, 
	spec JSON NOT NULL, 
	PRIMARY KEY ("key")
);
INSERT INTO "tasks" VALUES('66dfa9c1f2a6aee51a0fc1b549c7112483b93823c5d568f75a507bcf2cb8f05e','aten::mm','{"operator": "aten::mm", "tensors": {"self": {"shape": [4, 8], "dtype": "float32", "stride": [8, 1], "mean": null, "rms": null, "minimum": null, "maximum": null}, "mat2": {"shape": [8, 4], "dtype": "float32", "stride": [4, 1], "mean": null, "rms": null, "minimum": null, "maximum": null}}, "arguments": {}}');
CREATE INDEX ix_tasks_operator ON tasks (operator);
COMMIT;
