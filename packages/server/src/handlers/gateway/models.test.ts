import type { Message, Session } from '@parlance/protocol';
import { expect, it } from 'vitest';
import { GatewayFailure } from './failure.js';
import { type AllowedModels, createModelPolicy } from './models.js';
import { GatewayBody } from './request-body.js';
import { MAX_SCANNED_VALUES } from './scan.js';

const CONTEXT = { session: {} as Session, signal: new AbortController().signal };

function request(body: string | Uint8Array, headerModel?: string): GatewayBody {
  const bytes = typeof body === 'string' ? new TextEncoder().encode(body) : body;
  const header = headerModel === undefined ? undefined : { model: headerModel };
  return new GatewayBody({ bytes, header } as unknown as Message);
}

/** The admitted model, or the refusal. */
async function outcome(body: string | Uint8Array, allowed?: AllowedModels, headerModel?: string) {
  try {
    return await createModelPolicy(allowed).admit(request(body, headerModel), CONTEXT);
  } catch (error) {
    if (error instanceof GatewayFailure) return { code: error.code, message: error.message };
    throw error;
  }
}

const BAD = { code: 'bad_request' };
const ALLOWED = ['gpt-4o', 'o1*'];

it.each([
  ['{"model":"gpt-4o"}', 'gpt-4o'],
  ['{"messages":[{"model":"x"}],"model":"o1-mini"}', 'o1-mini'],
  ['{"model":"gpt\\u002d4o"}', 'gpt-4o'],
  ['{"model":"gpt-4o-mini"}', { code: 'model_not_allowed' }],
  // Parsers that ignore case use the last key.
  ['{"model":"gpt-4o","Model":"o1-pro"}', BAD],
  ['{"model":"gpt-4o","MODEL":null}', BAD],
  ['{"Model":"gpt-4o"}', BAD],
  ['{"mode\\u006c":"gpt-4o"}', BAD],
  ['{"model":"gpt-4o","mode\\u006c":"o1"}', BAD],
  ['{"model":"gpt-4o","model":"gpt-4o"}', BAD],
  ['{"model":["gpt-4o"]}', BAD],
  ['{"x":{"model":"gpt-4o"}}', BAD],
  ['[{"model":"gpt-4o"}]', BAD],
  ['{"model":"gpt-4o"', BAD],
  ['', BAD],
  [`{"model":"o1${'x'.repeat(1024)}"}`, BAD],
])('if models are restricted, %s has this outcome', async (body, expected) => {
  const found = await outcome(body, ALLOWED);
  if (typeof expected === 'string') expect(found).toBe(expected);
  else expect(found).toMatchObject(expected);
});

it('refuses a key with invalid UTF-8, which parsers may drop', async () => {
  const body = Buffer.from('{"model":"gpt-4o","mo?del":"o1-pro"}');
  expect(await outcome(body, ALLOWED)).toBe('gpt-4o');
  body[body.indexOf('?')] = 0xff;
  expect(await outcome(body, ALLOWED)).toMatchObject(BAD);
  expect(await outcome(body)).toBe('gpt-4o');
});

it('refuses a request beyond the limits of the scan only if models are restricted', async () => {
  const body = `{"model":"gpt-4o","x":[${new Array(MAX_SCANNED_VALUES).fill(0).join()}]}`;
  expect(await outcome(body, ALLOWED)).toMatchObject(BAD);
  expect(await outcome(body)).toBe('gpt-4o');
});

it('refuses no request for its model if every model is allowed', async () => {
  expect(await outcome('{"model":"a","Model":"b"}')).toBe('a');
  expect(await outcome('{"Model":"b"}')).toBe('b');
  // The body decides, as it does at the upstream.
  expect(await outcome('{"model":"a"}', undefined, 'header')).toBe('a');
  expect(await outcome('{}', undefined, 'header')).toBe('header');
  expect(await outcome(`{"model":"${'x'.repeat(200)}"}`)).toBe('x'.repeat(128));
  for (const body of ['', 'no JSON', '[]', '{"model":1}', '{}', `{"model":"${'x'.repeat(2000)}"}`]) {
    expect(await outcome(body)).toBeUndefined();
  }
});

it('refuses by the header of an M2M frame, but never admits by it', async () => {
  expect(await outcome('{"model":"gpt-4o"}', ALLOWED, 'gpt-5')).toMatchObject({ code: 'model_not_allowed' });
  expect(await outcome('{"model":"gpt-5"}', ALLOWED, 'gpt-4o')).toMatchObject({ code: 'model_not_allowed' });
});
