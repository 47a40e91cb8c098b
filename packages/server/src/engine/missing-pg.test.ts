import { expect, it, vi } from 'vitest';
import { postgres } from './postgres.js';

vi.mock('pg', () => {
  throw new Error('Cannot find package');
});

it('a URL without the package pg is refused with what to do', async () => {
  const link = postgres('postgres://127.0.0.1:1/app').connect();
  await expect(link.renew('aaaaaa', '', 1_000)).rejects.toMatchObject({
    code: 'unsupported',
    message: expect.stringContaining('npm install pg'),
  });
  await link.close();
});
