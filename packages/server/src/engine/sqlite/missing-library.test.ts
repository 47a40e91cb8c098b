import { expect, it, vi } from 'vitest';
import { sqlite } from '../sqlite.js';

vi.mock('node:module', () => ({
  createRequire: () => () => {
    throw new Error('Cannot find module');
  },
}));

it('a file without SQLite is refused with what to do', () => {
  const builtIn = process.getBuiltinModule;
  process.getBuiltinModule = (() => undefined) as unknown as typeof builtIn;
  try {
    expect(() => sqlite('x.db')).toThrow(
      expect.objectContaining({
        code: 'unsupported',
        message: expect.stringContaining('npm install @photostructure/sqlite@1'),
      }),
    );
  } finally {
    process.getBuiltinModule = builtIn;
  }
});
