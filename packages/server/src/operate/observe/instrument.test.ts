import {
  encodeHttpResponse,
  type Metadata,
  type RequestContext,
  type RequestHandler,
} from '@parlance/protocol';
import { describe, expect, it } from 'vitest';
import { instrument } from './instrument.js';
import type { RequestOutcome } from './tracing.js';

/** Counts the parts and outcomes of a handler that answers with these metadata. */
async function measure(handler: (tell: (metadata: Metadata) => void) => ReturnType<RequestHandler>) {
  const outcomes: RequestOutcome[] = [];
  let firstParts = 0;
  const observer = {
    handleRequest: (outcome: RequestOutcome) => void outcomes.push(outcome),
    handleFirstPart: () => void firstParts++,
  };
  const context = {
    metadata: {},
    signal: new AbortController().signal,
    replyMetadata: undefined as Metadata | undefined,
  };
  const measured = instrument(
    () =>
      handler((metadata) => {
        context.replyMetadata = metadata;
      }),
    () => observer,
    () => undefined,
  );
  const reply = await measured({} as never, context as unknown as RequestContext);
  const parts = reply as AsyncIterable<unknown>;
  if (typeof reply === 'object' && reply !== null && Symbol.asyncIterator in reply)
    for await (const _part of parts);
  return { outcomes, firstParts };
}

const status = (code: number) => encodeHttpResponse({ status: code, headers: new Map() });

describe('an answer that is an HTTP error', () => {
  it.each([400, 401, 404, 429, 500, 503])(
    'of status %i has failed, and says nothing about the first part',
    async (code) => {
      const streamed = await measure(async function* (tell) {
        tell(status(code));
        yield '';
        yield '{"error":{}}';
      });
      expect(streamed).toEqual({ outcomes: ['failed'], firstParts: 0 });
      const whole = await measure(async (tell) => {
        tell(status(code));
        return '{"error":{}}';
      });
      expect(whole).toEqual({ outcomes: ['failed'], firstParts: 0 });
    },
  );

  it.each([200, 204, 304, 399])('is not one of status %i', async (code) => {
    const streamed = await measure(async function* (tell) {
      tell(status(code));
      yield 'words';
    });
    expect(streamed).toEqual({ outcomes: ['answered'], firstParts: 1 });
  });

  it('is not one whose metadata the handler has made up', async () => {
    for (const metadata of [{}, { http: 'none' }, { http: { status: 'bad' } }]) {
      const counted = await measure(async function* (tell) {
        tell(metadata);
        yield 'words';
      });
      expect(counted).toEqual({ outcomes: ['answered'], firstParts: 1 });
    }
  });
});
