import { expect, it, vi } from 'vitest';
import { redis } from './redis.js';

vi.mock('ioredis', () => {
  throw new Error('Cannot find package');
});

it('a URL without the package ioredis is refused with what to do', async () => {
  const link = redis({ url: 'redis://127.0.0.1:1' }).connect();
  await expect(link.renew('aaaaaa', '', 1_000)).rejects.toMatchObject({
    code: 'unsupported',
    message: expect.stringContaining('npm install ioredis'),
  });
  await link.close();
});
