import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import ts from 'typescript';

/**
 * The functions that an application hands to us, found by the types of what the packages export: the parameters of
 * exported functions and classes, of the methods of what they return, and the members of these parameters.
 */

const ROOT = join(dirname(fileURLToPath(import.meta.url)), '../../..');

const ENTRIES = [
  'server/src/index.ts',
  'server/src/handlers/gateway/openai.ts',
  'server/src/engine/redis.ts',
  'server/src/engine/postgres.ts',
  'server/src/engine/sqlite.ts',
  'server/src/handlers/ai/api.ts',
  'server/src/handlers/contract.ts',
  'server/src/operate/ui.ts',
  'server/src/kit/kit.ts',
  'client/src/index.ts',
  'client/src/ai/transport.ts',
  'client/src/contract.ts',
  'client/src/react/index.ts',
  'client/src/inspect/index.ts',
];

/** Names such as `AgentsOptions.authorize`: the type that has the member, and the member. */
export function applicationCallbacks(): readonly string[] {
  const files = ENTRIES.map((entry) => join(ROOT, 'packages', entry));
  const program = ts.createProgram(files, {
    strict: true,
    exactOptionalPropertyTypes: true,
    noEmit: true,
    skipLibCheck: true,
    module: ts.ModuleKind.NodeNext,
    moduleResolution: ts.ModuleResolutionKind.NodeNext,
    target: ts.ScriptTarget.ES2023,
    lib: ['lib.es2023.d.ts', 'lib.esnext.disposable.d.ts', 'lib.dom.d.ts', 'lib.dom.asynciterable.d.ts'],
    customConditions: ['@parlance/source'],
    types: ['node'],
  });
  const checker = program.getTypeChecker();
  const found = new Set<string>();
  const given = new Set<ts.Type>();
  const returned = new Set<ts.Type>();

  for (const file of files) {
    const source = program.getSourceFile(file);
    const module = source && checker.getSymbolAtLocation(source);
    if (module === undefined) throw new Error(`${file} is not a module`);
    for (const exported of checker.getExportsOfModule(module)) {
      const isAlias = (exported.flags & ts.SymbolFlags.Alias) !== 0;
      const symbol = isAlias ? checker.getAliasedSymbol(exported) : exported;
      const values = ts.SymbolFlags.Function | ts.SymbolFlags.Class | ts.SymbolFlags.Variable;
      if ((symbol.flags & values) !== 0) visitReturned(checker.getTypeOfSymbol(symbol), symbol.name);
    }
  }
  return [...found].sort();

  /** A value that an application gives us. @param name under which it is found if it is a function. */
  function visitGiven(type: ts.Type, name: string): void {
    if (type.isUnionOrIntersection()) return type.types.forEach((each) => void visitGiven(each, name));
    const signatures = signaturesOf(type);
    if (signatures.length > 0) {
      found.add(name);
      for (const signature of signatures)
        for (const parameter of signature.getParameters())
          visitReturned(checker.getTypeOfSymbol(parameter), name);
      return;
    }
    const constraint = constraintOf(type);
    if (constraint !== undefined) return visitGiven(constraint, name);
    if ((type.flags & ts.TypeFlags.Object) === 0) return;
    const owner = ownerOf(type, name);
    // Each option that takes a logger is another place that calls one.
    if (owner === 'Logger') return void found.add(name);
    // They get the inside of a server or of a client; tests of their own say what their hooks may do.
    if (owner === 'Feature' || owner === 'SessionModule') return;
    if (given.has(type)) return;
    given.add(type);
    for (const element of elementsOf(type)) visitGiven(element, `${name}[]`);
    if (!/Array|Buffer|String/.test(type.symbol?.name ?? ''))
      for (const { type: value } of checker.getIndexInfosOfType(type)) visitGiven(value, `${owner}[key]`);
    for (const member of membersOf(type))
      visitGiven(checker.getTypeOfSymbol(member), `${owner}.${nameOf(member)}`);
  }

  /** A value that an application gets from us, so that it can call its methods. */
  function visitReturned(type: ts.Type, name: string): void {
    if (['Feature', 'SessionModule'].includes(ownerOf(type, name))) return;
    if (type.isUnionOrIntersection()) return type.types.forEach((each) => void visitReturned(each, name));
    const constraint = constraintOf(type);
    if (constraint !== undefined) return visitReturned(constraint, name);
    if ((type.flags & ts.TypeFlags.Object) === 0 || returned.has(type)) return;
    returned.add(type);
    for (const element of elementsOf(type)) visitReturned(element, name);
    for (const signature of signaturesOf(type)) {
      for (const parameter of signature.getParameters())
        visitGiven(checker.getTypeOfSymbol(parameter), `${name}(${parameter.name})`);
      visitReturned(signature.getReturnType(), name);
    }
    const owner = ownerOf(type, name);
    for (const member of membersOf(type))
      visitReturned(checker.getTypeOfSymbol(member), `${owner}.${nameOf(member)}`);
  }

  function constraintOf(type: ts.Type): ts.Type | undefined {
    if ((type.flags & ts.TypeFlags.TypeParameter) === 0) return undefined;
    const constraint = checker.getBaseConstraintOfType(type);
    return constraint === type ? undefined : constraint;
  }

  /** The elements of a list, and what a promise or an iterable is of. */
  function elementsOf(type: ts.Type): readonly ts.Type[] {
    return GENERIC.has(type.symbol?.name) ? checker.getTypeArguments(type as ts.TypeReference) : [];
  }

  /** Members that our own sources declare: those of `Promise`, `Headers` and the like are not the application's. */
  function membersOf(type: ts.Type): readonly ts.Symbol[] {
    return checker.getPropertiesOfType(type).filter(({ declarations = [], name }) => {
      const [declaration] = declarations;
      if (declaration === undefined || name.startsWith('#') || name.startsWith('__#')) return false;
      if (ts.getCombinedModifierFlags(declaration) & ts.ModifierFlags.Private) return false;
      return isOurs(declaration);
    });
  }
}

function isOurs(declaration: ts.Declaration | undefined): boolean {
  const fileName = declaration?.getSourceFile().fileName ?? '';
  return fileName.includes('/packages/') && !fileName.includes('/node_modules/');
}

const GENERIC: ReadonlySet<string | undefined> = new Set([
  ...[
    'Array',
    'ReadonlyArray',
    'Promise',
    'Iterable',
    'AsyncIterable',
    'AsyncIterableIterator',
    'AsyncGenerator',
  ],
  ...['Map', 'ReadonlyMap', 'Set', 'ReadonlySet'],
]);

function signaturesOf(type: ts.Type): readonly ts.Signature[] {
  return [...type.getCallSignatures(), ...type.getConstructSignatures()];
}

/** The declared type that has the members; the way to it, if it has no name. */
function ownerOf({ aliasSymbol, symbol }: ts.Type, name: string): string {
  const declared = (aliasSymbol ?? symbol)?.name ?? '__type';
  // A mapped or inline type is found where it is used.
  return declared.startsWith('__') || MAPPED.has(declared) ? name : declared;
}

const MAPPED = new Set(['Omit', 'Pick', 'Partial', 'Readonly', 'Required', 'Exclude', 'NonNullable']);

function nameOf({ name }: ts.Symbol): string {
  return name.startsWith('__@') ? `[${name.slice(3).replace(/@\d+$/, '')}]` : name;
}
