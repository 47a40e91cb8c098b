import { crc32 } from 'node:zlib';
import { type Message, type Part, type RequestContext, RequestError, type Session } from '@parlance/protocol';

/** The behaviours of a peer under test, at either end: `conformance/README.md` lists them. */

type Wish = Readonly<Record<string, unknown>>;

/** The bodies that one session has received. */
interface Tally {
  messages: number;
  crc: number;
  cancelled: number;
  undelivered: unknown[];
}

/** The actions that only one of the two ends can take, and only as a process. */
export interface Host {
  /** Begins to drain, and accepts sessions again afterwards. */
  drain?(timeoutMs: number, returnWithinMs: number): void;
  /** Ends as if the process had died, and starts again. */
  restart?(): void;
  /** Continues as a page that is loaded again. */
  reload?(): void;
  /** It serves sessions over HTTP, or comes over HTTP. */
  readonly http?: true;
}

/** The answer to the word `abilities`, beside the abilities that an end has as a process. */
const ABILITIES = ['credentials', 'hold', 'who', 'pace', 'follow', 'goaway', 'bare', 'nonce'];

/** By ID: the object of a client continues with the session that follows a lost one. */
let tallies = new Map<string, Tally>();
const tallyOf = ({ id }: Session, among = tallies): Tally => {
  const tally = among.get(id) ?? { messages: 0, crc: 0, cancelled: 0, undelivered: [] };
  among.set(id, tally);
  return tally;
};

/** Forgets what sessions have received, as a process that ends does. */
export function forget(): void {
  tallies = new Map();
}

/** Counts the one-way messages of a session until it ends. */
export async function count(session: Session): Promise<void> {
  // Those of a process that has ended count for themselves.
  const mine = tallies;
  session.on('undelivered', ({ code, ...report }) => {
    tallyOf(session, mine).undelivered.push({ ...report, reason: code });
  });
  for await (const message of session) {
    if (message.tensor !== undefined) continue;
    await held.get(session.id)?.over;
    // Without a link no request can ask what has arrived.
    if (session.negotiated.extensions['link'] === undefined) await session.send(message.text).catch(() => {});
    const tally = tallyOf(session, mine);
    tally.messages++;
    tally.crc = crc32(message.bytes, tally.crc);
  }
}

/** Sessions that are told not to read on, by ID. */
const held = new Map<string, { readonly over: Promise<void> }>();

/** Answers requests of the kit. */
export const answering =
  (host: Host) =>
  (request: Message, context: RequestContext): ReturnType<typeof answer> =>
    answer(request, context, host);

function answer(
  request: Message,
  context: RequestContext,
  host: Host,
): Part | undefined | Promise<Part | undefined> | AsyncIterable<Part> {
  const wish: Wish = context.metadata;
  const { session } = context;
  switch (wish['test']) {
    case 'echo':
      if (wish['reply'] !== undefined) context.setMetadata(wish['reply'] as RequestContext['metadata']);
      return request.bytes;
    case 'stream':
      return stream(wish, context);
    case 'say':
      return say(session, wish);
    case 'throw':
      throw new Error(String(wish['message']));
    case 'fail':
      throw new RequestError(String(wish['code']), String(wish['message']), {
        retryable: wish['retryable'] === true,
      });
    case 'hang':
      return hang(session, context.signal, wish['stays'] === true);
    case 'tally':
      return { json: tallyOf(session) };
    case 'ask':
      return ask(session, wish);
    case 'tensor':
      return tensor(session, numberIn(wish, 'values'));
    case 'abilities':
      return { json: [...ABILITIES, ...Object.keys(host)] };
    case 'who':
      return { json: { from: request.from ?? null } };
    case 'hold':
      return hold(session, context.signal);
    case 'follow':
      return follow(session, wish);
    case 'drain':
      host.drain?.(numberIn(wish, 'deadline_ms'), numberIn(wish, 'retry_after_ms'));
      return undefined;
    case 'restart':
      host.restart?.();
      return hang(session, context.signal);
    case 'reload':
      host.reload?.();
      return hang(session, context.signal);
    case 'close':
      void session.close({ code: String(wish['code']), reason: String(wish['message']) });
      return hang(session, context.signal);
    default:
      throw new RequestError('unknown_test', `the test ${JSON.stringify(wish['test'])} is not known`);
  }
}

const numberIn = (wish: Wish, name: string): number => Number(wish[name] ?? 0);
const text = (what: string, index: number, size: number): string => `${what} ${index} `.padEnd(size, '.');

function stream(wish: Wish, context: RequestContext): AsyncIterable<Part> {
  const { keep, again } = wish;
  if (again === true) context.ifProcessDies('again');
  if (keep !== undefined) context.keep(typeof keep === 'string' ? { name: keep } : {});
  return parts(wish, context);
}

async function* parts(wish: Wish, { session, signal, yielded }: RequestContext): AsyncIterable<Part> {
  const pace = numberIn(wish, 'pace');
  for (let index = yielded.length + 1; index <= numberIn(wish, 'parts'); index++) {
    yield { text: text('part', index, numberIn(wish, 'size')) };
    if (pace > 0) await new Promise((resolve) => setTimeout(resolve, pace));
    if (!signal.aborted) continue;
    tallyOf(session).cancelled++;
    return;
  }
}

const addressed = ({ to }: Wish) => (to === undefined ? {} : { to: String(to) });

async function say(session: Session, wish: Wish): Promise<undefined> {
  const algorithm = (wish['codec'] ?? 'auto') as 'auto';
  for (let index = 1; index <= numberIn(wish, 'messages'); index++)
    await session.send(String(wish['text'] ?? text('message', index, numberIn(wish, 'size'))), {
      algorithm,
      ...addressed(wish),
    });
}

async function hang(session: Session, signal: AbortSignal, stays = false): Promise<undefined> {
  if (!signal.aborted)
    await new Promise<void>((resolve) => signal.addEventListener('abort', () => resolve(), { once: true }));
  tallyOf(session).cancelled++;
  if (stays) await session.closed.catch(() => {});
  return undefined;
}

/** Reads no further message until it is cancelled. */
async function hold(session: Session, signal: AbortSignal): Promise<undefined> {
  let go = () => {};
  held.set(session.id, { over: new Promise<void>((resolve) => (go = resolve)) });
  await hang(session, signal);
  held.delete(session.id);
  go();
  return undefined;
}

/** Follows a kept reply and tells what came of it. */
async function follow(session: Session, wish: Wish): Promise<Part> {
  const parts: string[] = [];
  let error: { code: string; message: string } | null = null;
  const { id, name, after, leave_after: most } = wish;
  try {
    for await (const part of session.follow(String(id ?? name), { after: Number(after ?? 0) })) {
      parts.push(part.text);
      if (parts.length === most) break;
    }
  } catch (failure) {
    error = { code: (failure as RequestError).code, message: (failure as Error).message };
  }
  return { json: { parts, error } };
}

/** Sends requests to the kit and tells what came of them. */
async function ask(session: Session, wish: Wish): Promise<Part> {
  const one = async () => {
    const told: { parts: string[]; error: { code: string; message: string } | null } = {
      parts: [],
      error: null,
    };
    try {
      const reply = session.stream(String(wish['text'] ?? text('question', 1, numberIn(wish, 'size'))), {
        algorithm: (wish['codec'] ?? 'auto') as 'auto',
        metadata: { test: 'answer' },
        ...addressed(wish),
      });
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
