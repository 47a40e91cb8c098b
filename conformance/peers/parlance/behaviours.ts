import { crc32 } from 'node:zlib';
import { type Message, type Part, type RequestContext, RequestError, type Session } from '@parlance/protocol';

/** What a peer under test does, at either end: `conformance/README.md` lists it. */

type Wish = Readonly<Record<string, unknown>>;

/** What one session has received. */
interface Tally {
  messages: number;
  crc: number;
  cancelled: number;
}

/** By ID: the object of a client goes on with the session that follows a lost one. */
const tallies = new Map<string, Tally>();
const tallyOf = ({ id }: Session): Tally => {
  const tally = tallies.get(id) ?? { messages: 0, crc: 0, cancelled: 0 };
  tallies.set(id, tally);
  return tally;
};

/** Counts the one-way messages of a session until it ends. */
export async function count(session: Session): Promise<void> {
  for await (const message of session) {
    if (message.tensor !== undefined) continue;
    const tally = tallyOf(session);
    tally.messages++;
    tally.crc = crc32(message.bytes, tally.crc);
  }
}

/** Answers a request of the kit. */
export function answer(
  request: Message,
  context: RequestContext,
): Part | undefined | Promise<Part | undefined> | AsyncIterable<Part> {
  const wish: Wish = context.metadata;
  const { session } = context;
  switch (wish['test']) {
    case 'echo':
      if (wish['reply'] !== undefined) context.setMetadata(wish['reply'] as RequestContext['metadata']);
      return request.bytes;
    case 'stream':
      return parts(numberIn(wish, 'parts'), numberIn(wish, 'size'));
    case 'say':
      return say(session, wish);
    case 'fail':
      throw new RequestError(String(wish['code']), String(wish['message']), {
        retryable: wish['retryable'] === true,
      });
    case 'hang':
      return hang(session, context.signal);
    case 'tally':
      return { json: tallyOf(session) };
    case 'ask':
      return ask(session, wish);
    case 'tensor':
      return tensor(session, numberIn(wish, 'values'));
    case 'close':
      void session.close({ code: String(wish['code']), reason: String(wish['message']) });
      return hang(session, context.signal);
    default:
      throw new RequestError('unknown_test', `the test ${JSON.stringify(wish['test'])} is not known`);
  }
}

const numberIn = (wish: Wish, name: string): number => Number(wish[name] ?? 0);
const text = (what: string, index: number, size: number): string => `${what} ${index} `.padEnd(size, '.');

async function* parts(number: number, size: number): AsyncIterable<Part> {
  for (let index = 1; index <= number; index++) yield { text: text('part', index, size) };
}

async function say(session: Session, wish: Wish): Promise<undefined> {
  const algorithm = (wish['codec'] ?? 'auto') as 'auto';
  for (let index = 1; index <= numberIn(wish, 'messages'); index++)
    await session.send(String(wish['text'] ?? text('message', index, numberIn(wish, 'size'))), { algorithm });
}

async function hang(session: Session, signal: AbortSignal): Promise<undefined> {
  if (!signal.aborted)
    await new Promise<void>((resolve) => signal.addEventListener('abort', () => resolve(), { once: true }));
  tallyOf(session).cancelled++;
  return undefined;
}

/** Sends requests to the kit and tells what came of them. */
async function ask(session: Session, wish: Wish): Promise<Part> {
  const one = async () => {
    const told: { parts: string[]; error: { code: string; message: string } | null } = {
      parts: [],
      error: null,
    };
    const reply = session.stream(String(wish['text'] ?? text('question', 1, numberIn(wish, 'size'))), {
      algorithm: (wish['codec'] ?? 'auto') as 'auto',
      metadata: { test: 'answer' },
    });
    try {
      for await (const part of reply) {
        told.parts.push(part.text);
        if (told.parts.length === wish['cancel_after']) break;
      }
    } catch (error) {
      told.error = { code: (error as RequestError).code, message: (error as Error).message };
    }
    return told;
  };
  return { json: await Promise.all(Array.from({ length: Number(wish['requests'] ?? 1) }, one)) };
}

async function tensor(session: Session, values: number): Promise<Part> {
  const data = Float32Array.from({ length: values }, (_, index) => index);
  try {
    await session.sendTensor({ data, shape: [values], dtype: 'float32', payloadType: 'hidden_state' });
    return { json: { error: null } };
  } catch (error) {
    return { json: { error: (error as RequestError).code } };
  }
}
