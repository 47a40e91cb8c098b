import type { Browser, Page } from 'playwright-core';
import type { Pasted } from '../../../scripts/pasted.js';
import { openPage } from '../kit/chat-page.js';

export interface Means {
  readonly pasted: Pasted;
  readonly browser: Browser;
  /** The folder below that of the packages with the files of the guide. */
  readonly folder: string;
}

/** Follows a guide. @throws if something is not as the guide says. */
export type Guide = (means: Means) => Promise<void>;

/**
 * Opens a page, and waits until an element has a text. The page may complain of nothing.
 *
 * @param act what the user does before.
 */
export async function shows(
  browser: Browser,
  url: string,
  selector: string,
  text: string | RegExp,
  act: (page: Page) => Promise<void> = async () => {},
): Promise<void> {
  await using opened = await openPage(browser, url);
  const { page, complaints } = opened;
  try {
    await act(page);
    await page.locator(selector, { hasText: text }).first().waitFor();
  } catch (error) {
    throw new Error(`${url} shows ${await page.content()}\n${complaints.join('\n')}`, { cause: error });
  }
  const serious = complaints.filter((each) => !each.includes('favicon'));
  if (serious.length > 0) throw new Error(`${url} complains:\n${serious.join('\n')}`);
}
