import { expect, it } from 'vitest';
import { fromHex } from '../../../packages/protocol/src/base/testing/bytes.js';
import { encodeControl } from '../subject.js';
import { PLAIN, RelayBench, STRANGER, STRANGERS_HELLO } from './relay-bench.js';
import { framesOf } from './relay-target.js';
import { prepareTargets } from './targets.js';

async function begun(): Promise<RelayBench> {
  await prepareTargets();
  const bench = new RelayBench();
  bench.say(encodeControl(STRANGERS_HELLO));
  return bench;
}

it("relays the stranger's messages, and those to it", async () => {
  const bench = await begun();
  const frames = framesOf(
    (core) => core.channel.send({ ...PLAIN, address: 'ada' }),
    (core) => void core.channel.request({ ...PLAIN, address: 'bob' }),
    (core) =>
      void core.channel.transfer({
        payloadSize: 9,
        totalLength: 9,
        first: new Uint8Array(9),
        address: 'ada',
      }),
  );
  for (const frame of frames) bench.say(frame);
  expect(bench.heard('ada')).toEqual([`message ${STRANGER} ping`, 'tensor stranger']);
  expect(bench.heard('bob')).toEqual([`request ${STRANGER} ping`]);
  bench.command('ada', (core) => void core.channel.request({ ...PLAIN, address: STRANGER }));
  bench.say(fromHex('130200686921'));
  bench.say(fromHex('1402'));
  expect(bench.heard('ada')).toEqual(['part  hi!']);
  expect(bench.isOpen).toBe(true);
});

it('drops a stranger that breaks the protocol, and notifies its requesters', async () => {
  const bench = await begun();
  bench.command('ada', (core) => void core.channel.request({ ...PLAIN, address: STRANGER }));
  bench.say(fromHex('1000c0'));
  expect(bench.isOpen).toBe(false);
  expect(bench.heard('ada')).toEqual(['failure peer_gone']);
});
