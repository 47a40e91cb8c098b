import { type ClientOptions, type ClientSession, connect, loadEncoding } from '@parlance/client';

/** Pages that load their codecs after they have connected. Each scenario returns what the test compares. */

const LONG = 'The same words, again and again, in every message of this page. '.repeat(40);
const wait = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));

/** The codec in which the server sends `text` back. */
async function echo(session: ClientSession, text: string): Promise<string> {
  await session.send(text);
  for await (const message of session) {
    if (message.text !== text) throw new Error(`another text came back: ${message.text}`);
    return message.algorithm;
  }
  throw new Error('the session ended');
}

/** The codecs in which the server sends `text` back, until it comes in `wanted`. */
async function echoesUntil(session: ClientSession, text: string, wanted: string): Promise<string[]> {
  const codecs: string[] = [];
  for (let round = 0; round < 50 && codecs.at(-1) !== wanted; round++) {
    if (round > 0) await wait(200);
    codecs.push(await echo(session, text));
  }
  return codecs;
}

const SCENARIOS: Record<
  string,
  (open: (options?: ClientOptions) => Promise<ClientSession>) => Promise<unknown>
> = {
  async default(open) {
    const session = await open();
    const { algorithms, encoding, extensions } = session.negotiated;
    const codecs = await echoesUntil(session, LONG, 'CONTEXT');
    // The server may know of the codec just before the page uses it.
    await echo(session, LONG);
    const { sent } = session.stats();
    return {
      algorithms,
      encoding,
      hasContext: extensions['context'] !== undefined,
      first: codecs[0],
      last: codecs.at(-1),
      sentInContext: (sent.byAlgorithm.CONTEXT?.messages ?? 0) > 0,
    };
  },
  async encodings(open) {
    const session = await open({ encodings: ['CL100K_BASE'], extensions: { context: false } });
    const codecs = await echoesUntil(session, 'The weather is fine today.', 'TOKEN_NATIVE');
    return { encoding: session.negotiated.encoding, first: codecs[0], last: codecs.at(-1) };
  },
  async durable(open) {
    const session = await open();
    const { id } = session;
    let text = '';
    for await (const part of session.stream('count')) text += part.text;
    return { text, isSame: session.id === id, durable: session.negotiated.extensions['durable'] };
  },
  async loadEncoding(open) {
    await loadEncoding('CL100K_BASE');
    const session = await open({ extensions: { context: false } });
    const codecs = await echoesUntil(session, 'The weather is fine today.', 'TOKEN_NATIVE');
    return { encoding: session.negotiated.encoding, last: codecs.at(-1) };
  },
  async explicit(open) {
    const session = await open({ algorithms: ['BROTLI', 'M2M', 'NONE'], extensions: { context: false } });
    await session.send('{"model":"x","messages":[]}', { algorithm: 'M2M' });
    await session.send(LONG, { algorithm: 'BROTLI' });
    const answers: string[] = [];
    for await (const message of session) {
      if (answers.push(`${message.algorithm} ${message.text.length}`) === 2) break;
    }
    return answers;
  },
  async withoutBrotli(open) {
    const session = await open({ algorithms: ['BROTLI', 'NONE'], extensions: { context: false } });
    const failure = await session.request('x', { algorithm: 'BROTLI' }).then(
      () => 'none',
      (error) => (error as { code: string }).code,
    );
    await wait(2_000);
    return { failure, codec: await echo(session, LONG), state: session.state };
  },
  async everything(open) {
    const asked: string[] = [];
    const session = await open({
      onRequest: (request) => {
        asked.push(request.text);
        return 'the page answers';
      },
    });
    const stream = session.stream('stream');
    const before = stream.id;
    let streamed = '';
    for await (const part of stream) streamed += part.text;
    await session.sendTensor({
      data: Float32Array.of(1, 2, 3),
      shape: [3],
      dtype: 'float32',
      payloadType: 'hidden_state',
    });
    const cancelled = session.stream('slow');
    cancelled.cancel();
    let parts = 0;
    for await (const _ of cancelled) parts++;
    const reply = await session.request('ask the page');
    return { before, streamed, parts, reply: reply.text, asked };
  },
  async json(open) {
    const session = await open({ subprotocol: 'm2m.v1.json' });
    return await echo(session, LONG);
  },
  async early(open) {
    const seen: { protocol: string; offers: number; sent: number }[] = [];
    class Watched extends WebSocket {
      readonly #seen = { protocol: '', offers: 0, sent: 0 };
      constructor(url: string, protocols: string[]) {
        super(url, protocols);
        this.#seen.offers = protocols.length;
        seen.push(this.#seen);
        this.addEventListener('open', () => {
          this.#seen.protocol = this.protocol;
        });
      }
      override send(data: string | ArrayBufferView<ArrayBuffer>): void {
        this.#seen.sent++;
        super.send(data);
      }
    }
    const session = await open({ WebSocket: Watched });
    const first = { ...seen[0] };
    // The server loses the connection.
    const { text } = await session.request('cut');
    return { first, text, protocols: seen.map(({ protocol }) => protocol) };
  },
  async withoutLink(open) {
    const session = await open({ extensions: { link: false } });
    return await echo(session, LONG);
  },
  async security(open) {
    const key = Uint8Array.from({ length: 32 }, (_, i) => i);
    const session = await open({ security: { mode: 'AEAD', key } });
    const answer = await session.request('hello');
    await session.send('hello');
    return { text: answer.text, sent: Object.keys(session.stats().sent.byAlgorithm) };
  },
};

const query = new URLSearchParams(location.search);
const warnings: string[] = [];
const print = console.error;
console.error = (...args) => {
  warnings.push(String(args[0]));
  print(...args);
};
let result: unknown;
try {
  const open = (options?: ClientOptions) => connect(query.get('server') ?? '', options);
  result = await SCENARIOS[query.get('scenario') ?? '']?.(open);
} catch (error) {
  result = { error: String(error) };
}
document.body.dataset['result'] = JSON.stringify({ result, warnings });
