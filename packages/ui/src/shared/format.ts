/** Keeps a number and its unit on one line. */
const NO_BREAK = '\u00a0';

const UNITS = [
  [1e9, 'GB'],
  [1e6, 'MB'],
  [1e3, 'kB'],
] as const;

/** `9,876 B`, then `12.3 kB`, `1.2 MB` and `1.2 GB`; 1 kB is 1000 bytes. */
export function bytes(count: number): string {
  if (count < 10_000) return `${number(Math.round(count))}${NO_BREAK}B`;
  const [size, unit] = UNITS.find(([least]) => count >= least) ?? UNITS[2];
  const value = count / size;
  return `${value.toLocaleString('en', { maximumFractionDigits: 1, minimumFractionDigits: 1 })}${NO_BREAK}${unit}`;
}

/** `1,234`. */
export function number(value: number): string {
  return value.toLocaleString('en');
}

/** `1 piece`, `1,234 pieces`. */
export function count(value: number, noun: string): string {
  return `${number(value)}${NO_BREAK}${noun}${value === 1 ? '' : 's'}`;
}

/** `18× smaller` from three times on, else `34 % less`, `2 % more` or `the same`; empty without anything to compare. */
export function smaller(socket: number, http: number): string {
  if (http === 0 || socket === 0) return '';
  const ratio = http / socket;
  if (ratio >= 10) return `${Math.round(ratio)}× smaller`;
  if (ratio >= 3) return `${ratio.toFixed(1)}× smaller`;
  const percent = Math.round((1 - socket / http) * 100);
  if (percent === 0) return 'the same';
  return `${Math.abs(percent)}${NO_BREAK}% ${percent > 0 ? 'less' : 'more'}`;
}

/** `−94 %`, `+2 %`; empty if there is nothing to compare. */
export function change(socket: number, http: number): string {
  if (http === 0) return '';
  const percent = Math.round((socket / http - 1) * 100);
  return `${percent < 0 ? '−' : '+'}${Math.abs(percent)}${NO_BREAK}%`;
}

/** `94 %`, `-2 %`: the part of HTTP that is saved. */
export function saved(socket: number, http: number): string {
  return http === 0 ? '' : `${Math.round((1 - socket / http) * 100)}${NO_BREAK}%`;
}

/** `0.8 s`, then `12 s` and `3 min`. */
export function duration(ms: number): string {
  if (ms < 10_000) return `${(ms / 1000).toFixed(1)}${NO_BREAK}s`;
  return ms < 120_000 ? `${Math.round(ms / 1000)}${NO_BREAK}s` : `${Math.round(ms / 60_000)}${NO_BREAK}min`;
}

/** `1:52`. */
export function clock(ms: number): string {
  const seconds = Math.max(0, Math.floor(ms / 1000));
  return `${Math.floor(seconds / 60)}:${String(seconds % 60).padStart(2, '0')}`;
}
