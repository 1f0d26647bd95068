"""Makes a text, one character a token: sentences drawn from a small grammar. Writes train.bin, val.bin and meta.json."""
import json
import os

import numpy as np

GRAMMAR = {
    'S': ['N V N .', 'N V N P N .', 'when N V N , N V N .', 'A N V A N .'],
    'N': ['the climber', 'the rope', 'a knot', 'the ridge', 'one guide', 'the valley', 'a storm'],
    'V': ['holds', 'follows', 'crosses', 'watches', 'leaves', 'finds'],
    'P': ['above', 'below', 'beside', 'behind'],
    'A': ['slowly', 'at dawn', 'again', 'in the end'],
}


def sentence(rng):
    words = []
    for symbol in GRAMMAR['S'][rng.randint(len(GRAMMAR['S']))].split():
        options = GRAMMAR.get(symbol)
        words.append(options[rng.randint(len(options))] if options else symbol)
    return ' '.join(words).replace(' .', '.').replace(' ,', ',') + '\n'


def prepare(data_dir, num_characters=200_000, seed=1337):
    rng = np.random.RandomState(seed)
    pieces, length = [], 0
    while length < num_characters:
        pieces.append(sentence(rng))
        length += len(pieces[-1])
    text = ''.join(pieces)
    characters = sorted(set(text))
    stoi = {c: i for i, c in enumerate(characters)}
    tokens = np.array([stoi[c] for c in text], dtype=np.uint16)
    split = len(tokens) * 9 // 10
    os.makedirs(data_dir, exist_ok=True)
    tokens[:split].tofile(os.path.join(data_dir, 'train.bin'))
    tokens[split:].tofile(os.path.join(data_dir, 'val.bin'))
    # last, because the trainer takes its presence for the sign that the data is complete
    with open(os.path.join(data_dir, 'meta.json'), 'w') as f:
        json.dump({'vocab_size': len(characters), 'characters': ''.join(characters)}, f)


if __name__ == '__main__':
    prepare('data')
