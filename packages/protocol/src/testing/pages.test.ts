import { vi } from 'vitest';

/** The tests of control messages, metadata, errors and sessions again, with the parts that pages load. */

vi.mock('#msgpack', () => import('../base/msgpack/small.js'));
// It takes the place of the machine's module, and the tests use the machine itself as well.
vi.mock('#lifecycle', async (importOriginal) => ({
  ...(await importOriginal<object>()),
  ...(await import('../session/lifecycle-table.js')),
}));

await import('../control/envelope.test.js');
await import('../link/failure.test.js');
await import('../endpoint/messages/metadata.test.js');
await import('../session/lifecycle.test.js');
await import('../session/session.test.js');
await import('../session/resume.test.js');
await import('../session/closing-states.test.js');
