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

/** Expects that a state has no violations in both schemes, and no horizontal scrolling at any width. @param name unique. */
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
  await page.emulateMedia({ forcedColors: 'none' });
  for (const width of WIDTHS) {
    await page.setViewportSize({ width, height: HEIGHT });
    const overflow = await page.evaluate(
      () => document.documentElement.scrollWidth - document.documentElement.clientWidth,
    );
    expect([name, width, overflow]).toEqual([name, width, 0]);
    if (width < 1440) await shoot(String(width));
  }
}
