import type { Bound } from '../../../server/src/operate/admin/figures.js';

const NO_BREAK = '\u00a0';

/** `12 s`, `3 min`, `5 h`, `3 d`. */
export function age(ms: number): string {
  const seconds = Math.max(0, Math.floor(ms / 1000));
  if (seconds < 60) return `${seconds}${NO_BREAK}s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)}${NO_BREAK}min`;
  if (seconds < 172_800) return `${Math.floor(seconds / 3600)}${NO_BREAK}h`;
  return `${Math.floor(seconds / 86_400)}${NO_BREAK}d`;
}

/** `94 %` of 0.94. */
export function percent(part: number): string {
  return `${Math.round(part * 100)}${NO_BREAK}%`.replace('-', '−');
}

/** `410 ms`, `1.2 s`; a dash without a value. */
export function seconds(value: number | undefined): string {
  if (value === undefined) return '–';
  return value < 1 ? `${Math.round(value * 1000)}${NO_BREAK}ms` : `${value.toFixed(1)}${NO_BREAK}s`;
}

/** `3 agents` on one line. */
export function amount(value: number, name: string): string {
  return `${value.toLocaleString('en')}${NO_BREAK}${name}`;
}

/** `≤ 500 ms`, `> 300.0 s`; a dash without a value. */
export function bound(value: Bound | undefined): string {
  if (value === undefined) return '–';
  return `${value.is === 'most' ? '≤' : '>'}${NO_BREAK}${seconds(value.seconds)}`;
}

/** `3 kB / s` of `3 kB`. */
export function perSecond(text: string): string {
  return `${text}${NO_BREAK}/${NO_BREAK}s`;
}

/** `0.4`, `41`. */
export function rate(value: number): string {
  return value > 0 && value < 10 ? value.toFixed(1) : Math.round(value).toLocaleString('en');
}
