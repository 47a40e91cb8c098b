/** A request of the load. Its reply says of each part when it was yielded. */
export interface Wish {
  readonly parts: number;
  readonly paceMs: number;
  readonly isKept: boolean;
}

/** The token of a client whose session is recorded begins so. */
export const DURABLE = 'durable';
