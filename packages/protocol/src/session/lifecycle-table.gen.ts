// Written by `npm run docs` from lifecycle-machine.ts; do not edit.

/** Outcomes of a step: the next state, and its effects. */
export const OUTCOMES = 'failed fail,awaitingHello awaitHello,closed end,established establish,closing beginClosing,suspended,closing,closed,failed,suspended suspend,helloSent awaitAccept';

/**
 * For servers, servers that can resume, clients, clients that can resume: a row for each state. A row has the outcome, in
 * base 36, of an unknown event and of each event.
 */
export const STEPS =
  '0100220000' +
  '0032220000' +
  '0032220000' +
  '0000244040' +
  '0532540020' +
  '0000266220' +
  '7777777777' +
  '8888888888' +
  '0100220000' +
  '0032220000' +
  '0032220000' +
  '0000944040' +
  '0532540020' +
  '0662666220' +
  '7777777777' +
  '8888888888' +
  '0a00220000' +
  '0032220000' +
  '0032220000' +
  '0000244040' +
  '0532540020' +
  '0000266220' +
  '7777777777' +
  '8888888888' +
  '0a00220000' +
  '0032220000' +
  '0032220000' +
  '0000944040' +
  '0532540020' +
  '0662666220' +
  '7777777777' +
  '8888888888';
