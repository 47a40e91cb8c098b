import { type ClientOptions, type ClientSession, connect } from '@parlance/client';

/** HTTP over the session of a page. Each scenario returns what the test compares. */

const MIB = 1024 * 1024;

/** The same bytes in every run. */
const bytesOf = (length: number) => Uint8Array.from({ length }, (_, i) => (i * 31 + (i >> 8)) % 256);

async function hashOf(bytes: BufferSource): Promise<string> {
  const hash = new Uint8Array(await crypto.subtle.digest('SHA-256', bytes));
  return Array.from(hash, (byte) => byte.toString(16).padStart(2, '0')).join('');
}

async function sendForm(session: ClientSession, size: number): Promise<unknown> {
  const form = new FormData();
  const content = bytesOf(size);
  form.set('file', new File([content], 'Lärm.mp3', { type: 'audio/mpeg' }));
  form.set('text', 'Grüße');
  const response = await session.fetch('/form', { method: 'POST', body: form });
  const { hash, ...rest } = (await response.json()) as { hash: string };
  return { ...rest, isEqual: hash === (await hashOf(content)) };
}

const SCENARIOS: Readonly<
  Record<string, (open: (options?: ClientOptions) => Promise<ClientSession>) => Promise<unknown>>
> = {
  async forms(open) {
    const session = await open();
    return [await sendForm(session, 10_000), await sendForm(session, 3 * MIB)];
  },
  async bodies(open) {
    const session = await open();
    const bytes = bytesOf(2 * MIB);
    const echoed = async (body: BodyInit) => {
      const init = { method: 'POST', body, duplex: 'half' };
      const response = await session.fetch('/echo', init as RequestInit);
      return (await hashOf(await response.arrayBuffer())) === (await hashOf(bytes));
    };
    const blob = new Blob([bytes]);
    const request = new Request('http://any/echo', { method: 'POST', body: blob });
    const again = await (await session.fetch(request)).arrayBuffer();
    return [
      await echoed(bytes),
      await echoed(bytes.buffer),
      await echoed(blob),
      await echoed(blob.stream()),
      (await hashOf(again)) === (await hashOf(bytes)),
    ];
  },
  async shared(open) {
    const session = await open({ shared: true });
    return await sendForm(session, 3 * MIB);
  },
  async serving(open) {
    const aborted = new Promise<string>((resolve) => {
      void open({
        async onFetch(request, { session }) {
          const { pathname } = new URL(request.url);
          if (pathname === '/hash') return new Response(await hashOf(await request.arrayBuffer()));
          if (pathname === '/title') return Response.json({ title: document.title, id: session.id });
          if (pathname === '/events') {
            const events = new ReadableStream({
              start(controller) {
                controller.enqueue(new TextEncoder().encode('event: hi\ndata: from the page\n\n'));
                controller.close();
              },
            });
            return new Response(events, { headers: { 'content-type': 'text/event-stream' } });
          }
          request.signal.addEventListener('abort', () => resolve('aborted'));
          return await new Promise<Response>(() => {});
        },
      }).then((session) => session.send('ready'));
    });
    return await aborted;
  },
};

const query = new URLSearchParams(location.search);
const scenario = SCENARIOS[query.get('scenario') ?? ''];
const open = (options?: ClientOptions) => connect(query.get('server') ?? '', options);
document.title = 'a page';
try {
  document.body.dataset['result'] = JSON.stringify({ result: await scenario?.(open) });
} catch (error) {
  document.body.dataset['result'] = JSON.stringify({ error: String(error) });
}
