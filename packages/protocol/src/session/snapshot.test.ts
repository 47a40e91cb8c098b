import { expect, it } from 'vitest';
import { plainBody } from '../codec/body.js';
import { createSimulation, eventsOf } from '../testing/simulation.js';
import { decodeSnapshot } from './snapshot.js';

it('tmp', () => {
  const s = createSimulation({ delayMs: 5 });
  s.advance(100);
  let bytes: Uint8Array | undefined;
  expect(s.move((b) => (bytes = b))).toBe(true);
  console.log(bytes?.length, JSON.stringify(decodeSnapshot(bytes as Uint8Array)));
  s.client.core.channel.send(plainBody(new Uint8Array(10)));
  s.advance(10);
  expect(eventsOf(s.server, 'message')).toHaveLength(1);
  expect(s.move((b) => (bytes = b))).toBe(true);
  console.log(bytes?.length, JSON.stringify(decodeSnapshot(bytes as Uint8Array)));
});
