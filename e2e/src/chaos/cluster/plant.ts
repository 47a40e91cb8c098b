/** Faults of a node that are made on purpose, because a ledger that has found nothing may be blind. */

export const PLANTS = {
  lose: 'a part is left out',
  double: 'a part comes twice',
  swap: 'two parts change places',
  again: 'the upstream is asked twice',
  abort: 'handlers stop when the drain begins',
  mute: 'a message is not answered',
  forget: 'what the application knows of a session does not move',
  close: 'the node closes without a drain',
  engine: 'the engine is asked for every session',
} as const;
export type Plant = keyof typeof PLANTS;

const EVERY = 25;
let turns = 0;

/** Whether it is time for a planted fault. */
export function planted(): boolean {
  return ++turns % EVERY === 0;
}

/** The parts of an answer, with a fault now and then. */
export async function* answers(
  parts: AsyncIterable<string>,
  plant: Plant | undefined,
): AsyncGenerator<string> {
  let held: string | undefined;
  for await (const part of parts) {
    if (plant === 'lose' && planted()) continue;
    if (plant === 'double' && planted()) yield part;
    if (plant === 'swap' && held === undefined && planted()) {
      held = part;
      continue;
    }
    yield part;
    if (held !== undefined) yield held;
    held = undefined;
  }
  if (held !== undefined) yield held;
}
