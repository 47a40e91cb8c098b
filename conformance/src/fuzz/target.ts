import { encodeBase64, type Limits, resolveLimits } from '../subject.js';
import type { Figures } from './figures.js';

/** One decoder, or several that read the same kind of input. */
export interface Target {
  readonly name: string;
  /** Pieces that its inputs are made of. */
  readonly tokens: readonly Uint8Array[];
  /** Inputs to begin with, good and bad. */
  readonly seeds: readonly Uint8Array[];
  /**
   * Decodes an input in every way that the target knows.
   *
   * @returns whether it was refused.
   * @throws {Mismatch} where anything but a `ProtocolError` comes out, or what was decoded does not
   * hold together.
   */
  run(input: Uint8Array): boolean;
  /** What went through its sessions since it began, if its inputs stand for whole ones. */
  readonly figures?: Figures;
  /** Decodes something good, which must go on working after every refusal. */
  recheck(): void;
}

/** Small enough for thousands of runs a second, large enough for every path. */
export const FUZZ_LIMITS: Limits = resolveLimits({
  maxMessageSize: 1024 * 1024,
  maxTransferSize: 1024 * 1024,
});

/** UTF-8 as text, and what is none as lone surrogates: every string can come about. */
export function textOf(input: Uint8Array): string {
  return Buffer.from(input).toString('utf8').replaceAll('\uFFFD', '\uDC80');
}

export function bytesOfText(text: string): Uint8Array {
  return new Uint8Array(Buffer.from(text, 'utf8'));
}

/** Pieces of text as bytes. */
export function tokens(...texts: readonly string[]): readonly Uint8Array[] {
  return texts.map(bytesOfText);
}

export function base64Of(input: Uint8Array): string {
  return encodeBase64(input);
}

export const JSON_TOKENS = tokens(
  ...['{', '}', '[', ']', ',', ':', '"', '\\', 'null', 'true', '-0', '1e999', '0.1', '{"a":', '[[[['],
  ...['\\u0000', '\\ud800', '\\udc00', '"__proto__"', '"constructor"', '"toString"', ' ', '\ufeff'],
);
