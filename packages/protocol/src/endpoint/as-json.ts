/** What becomes of a value that travels as JSON. */
export type AsJson<Value> = unknown extends Value
  ? Value
  : Value extends { toJSON(): infer Json }
    ? AsJson<Json>
    : Value extends ((...args: never[]) => unknown) | symbol
      ? never
      : Value extends object
        ? { [Key in keyof Value]: AsJson<Value[Key]> }
        : Value;
