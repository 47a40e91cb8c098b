import { createTestServer, type TestServer } from '@parlance/server/testing';
import { afterEach, describe, expect, it } from 'vitest';

/** The error for a message that is too large names the option, and the end that has to change it. */

let test: TestServer | undefined;
afterEach(() => test?.close());

const MIB = 1024 * 1024;
const NONE = { algorithm: 'NONE' } as const;

async function serve(maxMessageSize?: number, client?: number) {
  test = await createTestServer({
    limits: { ...(maxMessageSize !== undefined && { maxMessageSize }) },
    onRequest: ({ bytes }) => String(bytes.length),
  });
  return await test.connect(client === undefined ? {} : { limits: { maxMessageSize: client } });
}

async function ask(session: Awaited<ReturnType<typeof serve>>, size: number): Promise<unknown> {
  const answer = session.request(new Uint8Array(size), NONE).then(
    ({ text }) => Number(text),
    (error: { code: string; message: string }) => `${error.code}: ${error.message}`,
  );
  for (let step = 0; step < 40; step++) await test?.clock.advance(1_000);
  return await answer;
}

describe('a message that is too large', () => {
  it.each([
    [20 * MIB, 1_000, 1_000, 'of this end'],
    [1_000, undefined, 1_000, 'of the peer'],
    [20 * MIB, undefined, 16 * MIB, 'of this end'],
    [undefined, undefined, 16 * MIB, 'of both ends'],
  ])('is refused with the option and its end: server %s, client %s', async (server, client, most, whose) => {
    const session = await serve(server, client);
    expect(await ask(session, most)).toBe(most);
    expect(await ask(session, most + 1)).toBe(
      `message_too_large: ${most + 1} bytes are more than the ${most} of maxMessageSize in limits ${whose}`,
    );
  });
});
