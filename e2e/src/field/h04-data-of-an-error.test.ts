import { type ErrorContext, RequestError } from '@parlance/server';
import { createTestServer, type TestServer } from '@parlance/server/testing';
import { afterEach, expect, it } from 'vitest';

/** A RequestError arrives with its data, or the server reports that it was sent without. */

let test: TestServer | undefined;
afterEach(() => test?.close());

const itself: Record<string, unknown> = {};
itself['again'] = itself;
const thrower = {
  toJSON() {
    throw new Error('no');
  },
};

/** A session whose requests fail with this data, and what its server reports. */
async function refusing(data: unknown) {
  const reported: string[] = [];
  test = await createTestServer({
    onRequest: () => {
      throw new RequestError('out_of_stock', 'none is left', { data });
    },
    onError: (error, { event }: ErrorContext) => reported.push(`${event}: ${error}`),
  });
  const session = await test.connect();
  return { session, reported };
}

it.each<[name: string, data: unknown, arrives: unknown]>([
  ['of exactly 8 KiB', 'x'.repeat(8 * 1024 - 2), 'x'.repeat(8 * 1024 - 2)],
  ['null', null, null],
  ['none', undefined, undefined],
])('data that can be sent: %s', async (_, data, arrives) => {
  const { session, reported } = await refusing(data);
  await expect(session.request('x')).rejects.toMatchObject({ code: 'out_of_stock', data: arrives });
  expect(reported).toEqual([]);
});

it.each<[name: string, data: unknown]>([
  ['one byte too large', 'x'.repeat(8 * 1024 - 1)],
  ['that refers to itself', itself],
  ['with a BigInt', 1n],
  ['that throws', thrower],
])('data that cannot be sent: %s', async (_, data) => {
  const { session, reported } = await refusing(data);
  await expect(session.request('x')).rejects.toMatchObject({ code: 'out_of_stock', data: undefined });
  expect(reported).toEqual(['request.data_dropped: ProtocolError: data: expected JSON of at most 8 KiB']);
});
