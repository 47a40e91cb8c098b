import { outcomeOf } from '../expect.js';
import { type SessionCore, Subprotocol } from '../subject.js';
import { Choices } from './choices.js';
import { damage } from './dialogue.js';
import { countFrame, type Figures } from './figures.js';
import { drawOffer, type Offer } from './offers.js';
import { AGENTS, PLAIN, RelayBench, STRANGER } from './relay-bench.js';
import { SessionEnd, unthrown } from './session-end.js';

/**
 * A relay among three agents. One of them may offer anything, uses everything it was granted, and has a frame
 * damaged now and then. The other two send messages to it, and must still reach each other.
 */

const STEPS = 560;
const DAMAGE = 1_200;
const TENSOR = 5_000;

/** @returns the bench, so that the caller can check the other agents. */
export function converseAtRelay(input: Uint8Array, figures: Figures): RelayBench {
  const choices = new Choices(input);
  const bench: RelayBench = new RelayBench({ onStranger: (frame) => fromServer.push(copied(frame)) });
  const fromServer: (Uint8Array | string)[] = [];
  let end = join();
  figures.sessions++;

  function join(): SessionEnd {
    const joined = new SessionEnd(
      'client',
      Subprotocol.BINARY,
      amongAgents(drawOffer(choices)),
      choices,
      () => {},
    );
    joined.agents = NAMES;
    unthrown(() => joined.core.handleConnected(bench.now));
    return joined;
  }

  const say = (frame: Uint8Array | string): void => {
    const wasOpen = bench.isOpen && bench.isConnected;
    bench.say(frame);
    countFrame(figures, frame, end.core.channel.hasLink, wasOpen && bench.isOpen);
  };
  /** Delivers everything between the stranger and the server. */
  const settle = (): void => {
    for (let moved = true; moved; ) {
      moved = end.takeEvents();
      for (const frame of fromServer.splice(0)) {
        moved = true;
        unthrown(() => end.core.handleMessage(frame, bench.now));
        end.takeEvents();
      }
      for (;;) {
        const frame = unthrown(() => end.core.pollTransmit());
        if (frame === undefined) break;
        moved = true;
        const all = choices.oneIn(DAMAGE) ? damage(copied(frame), choices) : [copied(frame)];
        for (const each of all) say(each);
      }
    }
  };
  const other = (run: (core: SessionCore) => void): void => {
    const name = choices.pick(AGENTS);
    bench.command(name, (core) => void outcomeOf(() => run(core)));
  };

  settle();
  for (let step = 0; step < STEPS; step++) {
    choices.weighted<() => void>([
      [70, () => end.act(4)],
      [4, () => other((core) => core.channel.send({ ...PLAIN, address: STRANGER }))],
      [16, () => other((core) => void core.channel.request({ ...PLAIN, address: STRANGER }))],
      [2, () => other((core) => tensor(core, choices))],
      [2, () => other((core) => core.channel.cancel(2 * choices.below(20) + 1))],
      [6, () => wait(choices.pick([1, 110, 250, 1_000]))],
      [1, () => bench.stall(choices.oneIn(2))],
    ])();
    settle();
    if (bench.isOpen && bench.isConnected && !end.hasEnded) continue;
    // One session ends; another one takes over its name.
    if (step > STEPS / 2) break;
    fromServer.length = 0;
    bench.takeOver();
    figures.sessions++;
    end = join();
    settle();
  }
  return bench;

  function wait(ms: number): void {
    bench.wait(ms);
    if (end.core.nextTimeout() <= bench.now) unthrown(() => end.core.handleTimeout(bench.now));
  }
}

const NAMES = [
  ...AGENTS,
  ...AGENTS,
  '@directory',
  STRANGER,
  'absent',
  ...Array.from({ length: 20 }, (_, i) => `x${i}`),
];

/** Adds the two extensions without which it could not exchange anything with the others. */
function amongAgents(offer: Offer): Offer {
  const { capabilities } = offer;
  const extensions = { link: '{}', agents: '{}', ...capabilities.extensions };
  return { ...offer, capabilities: { ...capabilities, extensions } };
}

function tensor(core: SessionCore, choices: Choices): void {
  const first = new Uint8Array(1 + choices.below(TENSOR - 1));
  const whole = { payloadSize: TENSOR, totalLength: TENSOR, address: STRANGER };
  const id = core.channel.transfer({ ...whole, first });
  if (!choices.oneIn(3)) core.channel.feed(id, new Uint8Array(TENSOR - first.length));
}

const copied = (frame: Uint8Array | string) => (typeof frame === 'string' ? frame : frame.slice());
