import { describe, expect, it } from 'vitest';
import { CHAT_OPTIONS } from '../../../examples/demo/chat-options.js';
import { answerText, ChatPages, finished, state } from '../kit/chat-driver.js';
import { chromiumMissing } from '../kit/chat-page.js';
import { Stage } from './chat-stage.js';

/** Without authentication, all tabs of a browser read the same answer, and another browser reads none of it. */

describe.skipIf(chromiumMissing() !== undefined)(
  'on a server without authentication, an answer that is being written',
  () => {
    const pages = ChatPages.use();
    const open = () =>
      Stage.open(pages, {
        serve: ({ onRequest }) => ({
          onRequest,
          ...(CHAT_OPTIONS.features && { features: CHAT_OPTIONS.features }),
        }),
      });
    const WHOLE = 'First words, the end.';

    it('is read in a duplicated tab too, to its end', async () => {
      const stage = await open();
      await stage.reading();
      const copy = await stage.duplicate();
      await state(copy, 'connected');
      stage.model.end();
      await finished(stage.page, 1);
      await finished(copy, 1);
      expect([await answerText(stage.page), await answerText(copy)]).toEqual([WHOLE, WHOLE]);
      expect(stage.model.asked).toBe(1);
      expect(stage.said(copy)).not.toContainEqual(expect.stringMatching(/in the other tab/));
    });

    it('is read in a new tab too, and not in another browser', async () => {
      const stage = await open();
      await stage.reading();
      const second = await stage.context.newPage();
      await second.goto(stage.page.url());
      const stranger = await (await pages.browser.newContext()).newPage();
      pages.use({ [Symbol.asyncDispose]: () => stranger.context().close() });
      await stranger.goto(stage.page.url());
      await state(stranger, 'connected');
      await expect.poll(() => answerText(second)).toBe('First words, ');
      stage.model.end();
      await finished(second, 1);
      expect(await answerText(second)).toBe(WHOLE);
      expect(stage.model.asked).toBe(1);
      expect(await answerText(stranger)).toBe('');
    });
  },
);
