import { decodeUtf8 } from '../base/text.js';
import { attempt, type Report } from './report.js';
import { decodeLossily } from './utf8.js';

/**
 * Notes down what a body stands for: its size, and its beginning where it is text.
 *
 * @param isPart it may begin or end inside a character.
 */
export function showContent(report: Report, content: Uint8Array, isPart: boolean): void {
  report.content = content.length;
  if (isPart) report.preview = report.show(decodeLossily(content));
  else {
    attempt(() => {
      report.preview = report.show(decodeUtf8(content));
    });
  }
}
