import { connect } from '@parlance/client';

/** A page that is served with a strict Content-Security-Policy. It leaves its results on its body. */

export interface CspPageResult {
  readonly isWebAssemblyBlocked: boolean;
  /** The echo of each message, in order. */
  readonly echoes: readonly unknown[];
  /** The body of a streamed response of `session.fetch`. */
  readonly events: string;
  readonly error: string | undefined;
}

const query = new URLSearchParams(location.search);
const texts = JSON.parse(query.get('texts') ?? '[]') as string[];
const echoes: unknown[] = [];
let [events, error]: [string, string | undefined] = ['', undefined];

try {
  const session = await connect(query.get('server') ?? '');
  for (const text of texts) await session.send(text);
  if (texts.length > 0) {
    for await (const message of session) {
      // No `await`: an application reads the text in the same turn.
      echoes.push(message.text);
      if (echoes.length === texts.length) break;
    }
  }
  const messages = [{ role: 'user', content: texts.at(-1) }];
  const response = await session.fetch('/v1/chat/completions', {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ model: 'page', messages, stream: true }),
  });
  events = await response.text();
  await session.close();
} catch (thrown) {
  error = String(thrown);
}
const result: CspPageResult = { isWebAssemblyBlocked: await isWebAssemblyBlocked(), echoes, events, error };
document.body.dataset['result'] = JSON.stringify(result);

/** Whether the policy holds: the smallest module does not compile. */
async function isWebAssemblyBlocked(): Promise<boolean> {
  try {
    await WebAssembly.compile(Uint8Array.of(0, 0x61, 0x73, 0x6d, 1, 0, 0, 0));
    return false;
  } catch {
    return true;
  }
}
