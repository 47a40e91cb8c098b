import { encodeBase64, type Limits, resolveLimits } from '../subject.js';
import type { Figures } from './figures.js';

/** A decoder, or several that read the same kind of input. */
export interface Target {
  readonly name: string;
  /** Building blocks of its inputs. */
  readonly tokens: readonly Uint8Array[];
  /** Initial inputs, valid and invalid. */
  readonly seeds: readonly Uint8Array[];
  /**
   * Decodes an input in every way that the target knows.
   *
   * @returns whether it was refused.
   * @throws {Mismatch} if anything but a `ProtocolError` is thrown, or the result is not consistent.
   */
  run(input: Uint8Array): boolean;
  /** The traffic of its sessions so far, if its inputs stand for whole sessions. */
  readonly figures?: Figures;
  /** Decodes a valid input, which must still work after every refusal. */
  recheck(): void;
}

/** Small enough for thousands of runs per second, large enough for every path. */
export const FUZZ_LIMITS: Limits = resolveLimits({
  maxMessageSize: 1024 * 1024,
  maxTransferSize: 1024 * 1024,
});

/** Decodes UTF-8, and other bytes to lone surrogates, so that every string can occur. */
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
