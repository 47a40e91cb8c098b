import type { Comparison } from './traffic.js';

/** Keeps a number and its unit on one line. */
const NO_BREAK = '\u00a0';

/** `9,876 B`, then `12.3 kB` and `1.2 MB`; 1 kB is 1000 bytes. */
export function bytes(count: number): string {
  if (count < 10_000) return `${count.toLocaleString('en')}${NO_BREAK}B`;
  const [value, unit] = count < 1_000_000 ? [count / 1000, 'kB'] : [count / 1_000_000, 'MB'];
  return `${value.toLocaleString('en', { maximumFractionDigits: 1, minimumFractionDigits: 1 })}${NO_BREAK}${unit}`;
}

export const SAME = 'the same';

/** `34 % less`, `2 % more` or `the same`; empty if there is no HTTP traffic to compare with. */
export function difference({ http, socket }: Comparison): string {
  if (http === 0) return '';
  const percent = Math.round((1 - socket / http) * 100);
  if (percent === 0) return SAME;
  return `${Math.abs(percent)}${NO_BREAK}% ${percent > 0 ? 'less' : 'more'}`;
}

/** `0.8 s`, then `12 s` and `3 min`. */
export function duration(ms: number): string {
  if (ms < 10_000) return `${(ms / 1000).toFixed(1)}${NO_BREAK}s`;
  return ms < 120_000 ? `${Math.round(ms / 1000)}${NO_BREAK}s` : `${Math.round(ms / 60_000)}${NO_BREAK}min`;
}
