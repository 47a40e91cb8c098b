import { connect, type Session } from '@parlance/client';
import { encodeBrotli, loadCodecs } from '@parlance/protocol';

/** What one history took in this browser. */
export interface PageResult {
  /** Microseconds that the page was busy with each request. */
  readonly busy: number[];
  /** The same for Brotli of some of the texts. */
  readonly brotli: number[];
}

let session: Session | undefined;

/** Connects, so that what is sent can be counted by itself. */
async function begin(port: number): Promise<void> {
  session = await connect(`ws://127.0.0.1:${port}/session`);
}

/** Sends the requests that are served at `url`, each after the answer to the one before. */
async function send(url: string): Promise<void> {
  for (const text of await requestsAt(url)) for await (const part of session!.stream(text)) void part.text;
  await session?.close();
}

/** Sends them in `rounds` sessions, after one for the compiler. */
async function measure(url: string, port: number, rounds: number): Promise<PageResult> {
  const requests = await requestsAt(url);
  await loadCodecs(['BROTLI']);
  const result: PageResult = { busy: [], brotli: [] };
  for (let round = -1; round < rounds; round++) {
    const fresh = await connect(`ws://127.0.0.1:${port}/session`);
    for (const [i, text] of requests.entries()) {
      const start = performance.now();
      const reply = fresh.stream(text);
      const busy = (performance.now() - start) * 1000;
      for await (const part of reply) void part.text;
      if (round < 0) continue;
      result.busy.push(busy);
      if (round > 0 || i % 8 !== 0) continue;
      const before = performance.now();
      encodeBrotli(text);
      result.brotli.push((performance.now() - before) * 1000);
    }
    await fresh.close();
  }
  return result;
}

async function requestsAt(url: string): Promise<string[]> {
  return (await (await fetch(url)).json()) as string[];
}

Object.assign(window, { begin, send, measure });
