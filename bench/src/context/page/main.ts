import { connect, type Session } from '@parlance/client';
import { encodeBrotli, loadCodecs } from '@parlance/protocol';
import { BestTimes } from '../best-times.js';

/** The time of one history in this browser. */
export interface PageResult {
  /** Microseconds that a request kept the page busy: the median of all. */
  readonly busy: number;
  /** The same for Brotli, over some of the texts. */
  readonly brotli: number;
}

/** Measures the time in its socket's `send`, which hands the frame to another process. */
class TimedWebSocket extends WebSocket {
  static spent = 0;
  override send(data: Parameters<WebSocket['send']>[0]): void {
    const start = performance.now();
    super.send(data);
    TimedWebSocket.spent += performance.now() - start;
  }
}

let session: Session | undefined;

/** Connects only, so that the bytes sent later can be counted separately. */
async function begin(port: number): Promise<void> {
  session = await ready(await connect(`ws://127.0.0.1:${port}/session`));
}

/** A page loads its codecs behind the first reply. */
async function ready(begun: Session): Promise<Session> {
  await loadCodecs(['CONTEXT']);
  for await (const part of begun.stream('')) void part;
  await new Promise((resolve) => setTimeout(resolve, 200));
  return begun;
}

/** Sends the requests that are served at `url`, each after the answer to the one before. */
async function send(url: string): Promise<void> {
  for (const text of await requestsAt(url)) for await (const part of session!.stream(text)) void part.text;
  await session?.close();
}

/** Sends the requests in each of `rounds` sessions. */
async function measure(url: string, port: number, rounds: number): Promise<PageResult> {
  const requests = await requestsAt(url);
  await loadCodecs(['BROTLI']);
  const busy = new BestTimes();
  const brotli = new BestTimes();
  for (let round = 0; round < rounds; round++) {
    const fresh = await ready(await connect(`ws://127.0.0.1:${port}/session`, { WebSocket: TimedWebSocket }));
    for (const [i, text] of requests.entries()) {
      TimedWebSocket.spent = 0;
      const start = performance.now();
      const reply = fresh.stream(text);
      busy.add(i, (performance.now() - start - TimedWebSocket.spent) * 1000);
      for await (const part of reply) void part.text;
      if (i % 8 !== 0) continue;
      const before = performance.now();
      encodeBrotli(text);
      brotli.add(i, (performance.now() - before) * 1000);
    }
    await fresh.close();
  }
  return { busy: busy.median(), brotli: brotli.median() };
}

async function requestsAt(url: string): Promise<string[]> {
  return (await (await fetch(url)).json()) as string[];
}

Object.assign(window, { begin, send, measure });
