import { connect } from '@parlance/client';
import type { Algorithm } from '@parlance/protocol';
import WebSocket from 'ws';
import { collectParagraphs } from '../codecs/prose.js';

/** Sends a megabyte of prose at a time and waits for its echo. */

const [url = '', algorithm = 'auto'] = process.argv.slice(2);
const session = await connect(url, { WebSocket });
const prose = collectParagraphs().join('\n');
const text = prose.repeat(Math.ceil(1_000_000 / prose.length)).slice(0, 1_000_000);
const echoes = session[Symbol.asyncIterator]();
for (let first = true; ; first = false) {
  await session.send(text, { algorithm: algorithm as Algorithm | 'auto' });
  await echoes.next();
  if (first) process.send?.('running');
}
