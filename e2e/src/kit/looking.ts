import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import type { Page } from 'playwright-core';
import { expect } from 'vitest';

/** Looks at a page as people do: in each scheme, at each width, and with what helps those who do not see it. */

const AXE = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');
/** A folder for pictures of each state. @default none are taken */
const PICTURES = process.env['SCREENSHOTS'];
const WIDTHS = [320, 390, 768, 1440];
const HEIGHT = 900;

/** The faults of a page that axe finds, best practices included. */
async function violations(page: Page): Promise<string[]> {
  await page.evaluate(AXE);
  return await page.evaluate(async () => {
    const { axe } = globalThis as unknown as {
      axe: { run(): Promise<{ violations: { id: string; nodes: { html: string }[] }[] }> };
    };
    const found = (await axe.run()).violations;
    return found.map(({ id, nodes }) => `${id}: ${nodes.map(({ html }) => html.slice(0, 120)).join(' | ')}`);
  });
}

/** The controls that are cut off at a side, or that something else covers; those behind a dialog are meant to be. */
async function hiddenControls(page: Page): Promise<string[]> {
  return await page.evaluate(() => {
    const top = document.querySelector('dialog[open], :popover-open') ?? document;
    const controls = top.querySelectorAll<HTMLElement>('button, a[href], input, select, textarea, summary');
    const isHidden = (control: HTMLElement) => {
      if (!control.checkVisibility({ opacityProperty: true, visibilityProperty: true })) return false;
      const { left, right, top: y, bottom, width, height } = control.getBoundingClientRect();
      // Tables and code scroll sideways.
      if (width === 0 || control.closest('.table, pre') !== null) return false;
      if (left < -1 || right > document.documentElement.clientWidth + 1) return true;
      const middle = y + height / 2;
      let scrolled = control.parentElement;
      while (scrolled !== null && !/auto|scroll/.test(getComputedStyle(scrolled).overflowY))
        scrolled = scrolled.parentElement;
      const box = scrolled?.getBoundingClientRect();
      const isInView =
        y >= Math.max(0, box?.top ?? 0) && bottom <= Math.min(innerHeight, box?.bottom ?? innerHeight);
      if (!isInView) return false;
      const found = document.elementFromPoint((left + right) / 2, middle);
      return found === null || !(control.contains(found) || found.contains(control));
    };
    return [...controls].filter(isHidden).map(({ outerHTML }) => outerHTML.slice(0, 120));
  });
}

/** What an animation, a transition or smooth scrolling moves. */
async function moving(page: Page): Promise<string[]> {
  return await page.evaluate(() => {
    const moves = (element: Element) =>
      [undefined, '::before', '::after'].some((part) => {
        const { animationName, transitionDuration, scrollBehavior } = getComputedStyle(element, part);
        return animationName !== 'none' || /[1-9]/.test(transitionDuration) || scrollBehavior === 'smooth';
      });
    return [...document.querySelectorAll('*')].filter(moves).map(({ outerHTML }) => outerHTML.slice(0, 120));
  });
}

/**
 * Expects that a state has no violations in both schemes, that nothing moves for people who want that, and that there is at no width, from
 * either side and at twice the size, horizontal scrolling or a hidden control. @param name unique.
 */
export async function look(page: Page, name: string): Promise<void> {
  const shoot = async (variant: string) => {
    if (PICTURES !== undefined) await page.screenshot({ path: `${PICTURES}/${name}-${variant}.png` });
  };
  for (const colorScheme of ['light', 'dark'] as const) {
    await page.emulateMedia({ colorScheme });
    const found = await violations(page);
    expect(found, [name, colorScheme, ...found].join('\n')).toEqual([]);
    await shoot(colorScheme);
  }
  await page.emulateMedia({ colorScheme: 'light', forcedColors: 'active' });
  await shoot('forced');
  await page.emulateMedia({ forcedColors: 'none', reducedMotion: 'reduce' });
  expect([name, ...(await moving(page))]).toEqual([name]);
  for (const width of WIDTHS) {
    await page.setViewportSize({ width, height: HEIGHT });
    await expectFits(page, `${name}-${width}`);
    if (width < 1440) await shoot(String(width));
    await page.evaluate(() => document.documentElement.setAttribute('dir', 'rtl'));
    await expectFits(page, `${name}-${width}-rtl`);
    await shoot(`${width}-rtl`);
    await page.evaluate(() => document.documentElement.removeAttribute('dir'));
  }
  await page.setViewportSize({ width: 1440 / 2, height: HEIGHT / 2 });
  await expectFits(page, `${name}-zoomed`);
  await shoot('zoomed');
  await page.setViewportSize({ width: 1440, height: HEIGHT });
}

async function expectFits(page: Page, title: string): Promise<void> {
  const overflow = await page.evaluate(
    () => document.documentElement.scrollWidth - document.documentElement.clientWidth,
  );
  expect([title, overflow, ...(await hiddenControls(page))]).toEqual([title, 0]);
}
