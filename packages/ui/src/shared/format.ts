/** Keeps a number and its unit on one line. */
const NO_BREAK = '\u00a0';

const UNITS = [
  [1e9, 'GB'],
  [1e6, 'MB'],
  [1e3, 'kB'],
] as const;

/** Made once: each takes as long to make as a thousand numbers to write. */
const WHOLE = new Intl.NumberFormat('en');
const TENTHS = new Intl.NumberFormat('en', { maximumFractionDigits: 1, minimumFractionDigits: 1 });

/** `9,876 B`, then `12.3 kB`, `1.2 MB` and `1.2 GB`; 1 kB is 1000 bytes. */
export function bytes(count: number): string {
  if (count < 10_000) return `${number(Math.round(count))}${NO_BREAK}B`;
  const [size, unit] = UNITS.find(([least]) => count >= least) ?? UNITS[2];
  return `${TENTHS.format(count / size)}${NO_BREAK}${unit}`;
}

/** `1,234`. */
export function number(value: number): string {
  return WHOLE.format(value);
}

/** `1 piece`, `1,234 pieces`. */
export function count(value: number, noun: string): string {
  return `${number(value)}${NO_BREAK}${noun}${value === 1 ? '' : 's'}`;
}

/**
 * `18× smaller than with gzip` from three times on, else `34 % less than`, `2 % more than` or `the same as`; empty without
 * anything to compare.
 */
export function smaller(socket: number, other: number, name: string): string {
  if (other === 0 || socket === 0) return '';
  const ratio = other / socket;
  if (ratio >= 10) return `${Math.round(ratio)}× smaller than ${name}`;
  if (ratio >= 3) return `${ratio.toFixed(1)}× smaller than ${name}`;
  const percent = Math.round((1 - socket / other) * 100);
  if (percent === 0) return `the same as ${name}`;
  return `${Math.abs(percent)}${NO_BREAK}% ${percent > 0 ? 'less' : 'more'} than ${name}`;
}

/** `0.8 s`, then `12 s` and `3 min`. Less than `0.1 s` is rounded up. */
export function duration(ms: number): string {
  if (ms < 10_000) return `${((ms > 0 ? Math.max(100, ms) : 0) / 1000).toFixed(1)}${NO_BREAK}s`;
  return ms < 120_000 ? `${Math.round(ms / 1000)}${NO_BREAK}s` : `${Math.round(ms / 60_000)}${NO_BREAK}min`;
}

/** `7 s`, in whole seconds. */
export function seconds(ms: number): string {
  return `${Math.max(0, Math.round(ms / 1000))}${NO_BREAK}s`;
}

/** `1:52`. */
export function clock(ms: number): string {
  const seconds = Math.max(0, Math.floor(ms / 1000));
  return `${Math.floor(seconds / 60)}:${String(seconds % 60).padStart(2, '0')}`;
}
