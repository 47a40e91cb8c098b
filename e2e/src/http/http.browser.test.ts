import { createHash } from 'node:crypto';
import type { ServerOptions } from '@parlance/server';
import { describe, expect, it } from 'vitest';
import { chromiumMissing } from '../kit/chat-page.js';
import { ScenarioPage } from '../kit/scenario-page.js';

/** Pages that fetch over their session, and pages that answer. */

const missing = chromiumMissing();
if (missing !== undefined) {
  if (process.env['CI'] === 'true') throw new Error(missing);
  console.warn(`skipped the tests of HTTP in pages: ${missing}`);
}

const MIB = 1024 * 1024;

const SERVER: ServerOptions = {
  limits: { bytesPerSecond: Infinity },
  async onFetch(request) {
    if (new URL(request.url).pathname === '/echo') return new Response(request.body);
    const form = await request.formData();
    const file = form.get('file') as File;
    const content = Buffer.from(await file.arrayBuffer());
    const hash = createHash('sha256').update(content).digest('hex');
    return Response.json({ name: file.name, type: file.type, size: file.size, text: form.get('text'), hash });
  },
};

describe.skipIf(missing !== undefined)('a page', () => {
  const page = ScenarioPage.use(new URL('./http-page.ts', import.meta.url));
  const run = (scenario: string, options = SERVER) => page.run(scenario, options);

  const sent = (size: number) => ({
    name: 'Lärm.mp3',
    type: 'audio/mpeg',
    size,
    text: 'Grüße',
    isEqual: true,
  });

  it('sends forms with files, small and streamed', async () => {
    expect(await run('forms')).toEqual({ result: [sent(10_000), sent(3 * MIB)] });
  });

  it('sends bytes, files, streams and requests', async () => {
    expect(await run('bodies')).toEqual({ result: [true, true, true, true, true] });
  });

  it('sends a form whole over a session that tabs share', async () => {
    expect(await run('shared')).toEqual({ result: sent(3 * MIB) });
  });

  it('answers its server', async () => {
    const got: unknown[] = [];
    const result = await run('serving', {
      limits: { bytesPerSecond: Infinity },
      async onSession(session) {
        for await (const message of session) {
          got.push(message.text);
          got.push(await (await session.fetch('/title')).json());
          const bytes = Buffer.alloc(3 * MIB, 'abc');
          const body = new Blob([bytes]).stream();
          const init = { method: 'POST', body, ...({ duplex: 'half' } as RequestInit) };
          const hash = createHash('sha256').update(bytes).digest('hex');
          got.push((await (await session.fetch('/hash', init)).text()) === hash);
          got.push(await (await session.fetch('/events')).text());
          const controller = new AbortController();
          const asking = session.fetch('/never', { signal: controller.signal });
          asking.catch(() => {});
          // The requests before were answered, so that this one is being handled when another is.
          await session.fetch('/title');
          controller.abort();
        }
      },
    });
    expect(result).toEqual({ result: 'aborted' });
    const described = { title: 'a page', id: expect.any(String) };
    expect(got).toEqual(['ready', described, true, 'event: hi\ndata: from the page\n\n']);
  });
});
