import { describe, expect, it } from 'vitest';
import { resolveRepliesOptions } from './options.js';

describe('replies.store', () => {
  it.each(['memory', 'engine'])('is refused as %s, with what to write instead', (store) => {
    expect(() => resolveRepliesOptions({ store } as never)).toThrow(
      expect.objectContaining({
        code: 'invalid_option',
        message: expect.stringMatching(/^keptReplies.store: leave it out; .* in the engine if there is one/),
      }),
    );
  });
});
