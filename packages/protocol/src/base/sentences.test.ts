import { beforeEach, describe, expect, it, vi } from 'vitest';

const importSentences = vi.fn();
vi.mock('./sentence-table.js', () => ({ importSentences }));

const SENTENCES = [['stream ', ' sent ', ' bytes'], ['the session failed'], ['', ' must be ', '']];

/** As the build of pages leaves it; each test has a page of its own. */
async function openPage() {
  vi.resetModules();
  const page = await import('./sentences-web.js');
  vi.doMock('#sentences', () => page);
  const { say, sentenceOf, loadSentences } = page;
  const { ProtocolError } = await import('./errors.js');
  const fail = (code: 'bad_frame' | 'internal', number: number, ...values: unknown[]) =>
    new ProtocolError(code, say(number, ...values) as string);
  return { say, sentenceOf, loadSentences, fail };
}

beforeEach(() => {
  importSentences.mockReset();
  importSentences.mockResolvedValue({ sentences: SENTENCES });
});

describe('an error in a page', () => {
  it('has its code and its values at once, and its sentence when it is loaded', async () => {
    const { fail, sentenceOf } = await openPage();
    const error = fail('bad_frame', 0, 3, 'many');
    expect(error.code).toBe('bad_frame');
    expect(error.message).toMatch(/code says what went wrong.*\(3, many\)/);
    const before = error.message;
    await sentenceOf(error);
    expect(error.message).toBe('stream 3 sent many bytes');
    expect(error.stack).toContain('stream 3 sent many bytes');
    expect(error.stack).not.toContain(before);
  });

  it('has its sentence at once when all are loaded', async () => {
    const { fail, loadSentences, sentenceOf } = await openPage();
    await loadSentences();
    const error = fail('internal', 1);
    expect(error.message).toBe('the session failed');
    expect(sentenceOf(error)).toBeUndefined();
    expect(importSentences).toHaveBeenCalledTimes(1);
  });

  it('may have sentences as values', async () => {
    const { fail, say, sentenceOf } = await openPage();
    const error = fail('bad_frame', 2, 'resume', say(1));
    await sentenceOf(error);
    expect(error.message).toBe('resume must be the session failed');
  });

  it('shows values as they are', async () => {
    const { fail, sentenceOf } = await openPage();
    const error = fail('bad_frame', 0, "$& $' $1", '');
    await sentenceOf(error);
    expect(error.message).toBe("stream $& $' $1 sent  bytes");
    expect(error.stack).toContain("stream $& $' $1 sent  bytes");
  });

  it('keeps its code and its values if sentences cannot be loaded, and the next error tries again', async () => {
    importSentences.mockRejectedValueOnce(new Error('offline'));
    const { fail, sentenceOf } = await openPage();
    const error = fail('bad_frame', 0, 3, 4);
    await sentenceOf(error);
    expect(error.message).toMatch(/sentence 0 is not loaded \(3, 4\)$/);
    const next = fail('internal', 1);
    await sentenceOf(next);
    expect(next.message).toBe('the session failed');
    expect(importSentences).toHaveBeenCalledTimes(2);
  });

  it('has nothing to wait for if its message was text', async () => {
    const { sentenceOf } = await openPage();
    const { ProtocolError } = await import('./errors.js');
    expect(sentenceOf(new ProtocolError('internal', 'text'))).toBeUndefined();
    expect(sentenceOf('no object')).toBeUndefined();
    expect(importSentences).not.toHaveBeenCalled();
  });
});
