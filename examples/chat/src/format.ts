import type { Comparison } from './traffic.js';

/** Numbers as people read them. */

/** 9,876 B, then 12.3 kB and 1.2 MB; a kB has 1000 bytes. */
export function bytes(count: number): string {
  if (count < 10_000) return `${count.toLocaleString('en')} B`;
  const [value, unit] = count < 1_000_000 ? [count / 1000, 'kB'] : [count / 1_000_000, 'MB'];
  return `${value.toLocaleString('en', { maximumFractionDigits: 1, minimumFractionDigits: 1 })} ${unit}`;
}

/** `34 % less`, `2 % more`, `the same`; nothing where there is nothing to compare with. */
export function difference({ json, socket }: Comparison): string {
  if (json === 0) return '';
  const percent = Math.round((1 - socket / json) * 100);
  if (percent === 0) return 'the same';
  return percent > 0 ? `${percent} % less` : `${-percent} % more`;
}
