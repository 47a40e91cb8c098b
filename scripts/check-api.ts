import { dirname, join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import ts from 'typescript';

/**
 * Every type in a public signature of a package can be imported from that package: walks the exports of its
 * entries, and reports each type of our own that they mention and that the package does not export.
 */

const ROOT = join(dirname(fileURLToPath(import.meta.url)), '..');
/** The files of the entries that are walked. */
const PACKAGES = {
  server: ['index.ts', 'engine/api.ts', 'engine/suite/tests.ts', 'operate/admin/figures.ts', 'operate/ui.ts'],
  client: ['index.ts'],
};

interface Missing {
  readonly name: string;
  readonly declaredIn: string;
  /** The exported declaration that mentions it. */
  readonly mentionedBy: string;
}

function missingTypes(
  packageName: string,
  files: readonly string[],
): { readonly exported: number; readonly missing: Missing[] } {
  const folder = join(ROOT, 'packages', packageName);
  const config = ts.getParsedCommandLineOfConfigFile(
    join(folder, 'tsconfig.json'),
    { composite: false, noEmit: true },
    { ...ts.sys, onUnRecoverableConfigFileDiagnostic: (diagnostic) => fail(diagnostic.messageText) },
  );
  const entries = files.map((file) => join(folder, 'src', file));
  const program = ts.createProgram(entries, config?.options ?? {});
  const checker = program.getTypeChecker();
  const modules = entries.map((entry) => {
    const source = program.getSourceFile(entry);
    return (source && checker.getSymbolAtLocation(source)) ?? fail(`${entry} is not a module`);
  });
  const original = (symbol: ts.Symbol): ts.Symbol =>
    symbol.flags & ts.SymbolFlags.Alias ? checker.getAliasedSymbol(symbol) : symbol;

  const exported = new Set(modules.flatMap((module) => checker.getExportsOfModule(module).map(original)));
  const missing = new Map<ts.Symbol, Missing>();
  const seen = new Set<ts.Type>();
  for (const symbol of exported) {
    for (const declaration of symbol.declarations ?? []) visit(declaration, symbol.name);
  }
  return { exported: exported.size, missing: [...missing.values()] };

  /** Visits what a declaration shows to its users: not its private members, and not the bodies of functions. */
  function visit(node: ts.Node, mentionedBy: string): void {
    if (isHidden(node) || ts.isBlock(node)) return;
    if (ts.isTypeReferenceNode(node)) mention(node.typeName, mentionedBy);
    else if (ts.isExpressionWithTypeArguments(node)) mention(node.expression, mentionedBy);
    else if (ts.isImportTypeNode(node) && node.qualifier !== undefined) mention(node.qualifier, mentionedBy);
    else if (isUntyped(node)) mentionInferred(node, mentionedBy);
    ts.forEachChild(node, (child) => {
      // The value of a variable, parameter or property is not part of its signature.
      if ('initializer' in node && child === node.initializer) return;
      visit(child, mentionedBy);
    });
  }

  function mention(name: ts.Node, mentionedBy: string): void {
    const found = checker.getSymbolAtLocation(name);
    if (found !== undefined) check(original(found), mentionedBy);
  }

  function mentionInferred(node: ts.Node, mentionedBy: string): void {
    const signature = ts.isFunctionLike(node) ? checker.getSignatureFromDeclaration(node) : undefined;
    checkType(signature?.getReturnType() ?? checker.getTypeAtLocation(node), mentionedBy);
  }

  function checkType(type: ts.Type, mentionedBy: string): void {
    if (seen.has(type)) return;
    seen.add(type);
    const symbol = type.aliasSymbol ?? type.getSymbol();
    if (symbol !== undefined) check(symbol, mentionedBy);
    const parts = type.isUnionOrIntersection() ? type.types : [];
    const args = type.aliasTypeArguments ?? checker.getTypeArguments(type as ts.TypeReference) ?? [];
    for (const part of [...parts, ...args]) checkType(part, mentionedBy);
  }

  function check(symbol: ts.Symbol, mentionedBy: string): void {
    if (exported.has(symbol) || missing.has(symbol) || !(symbol.flags & NAMED_TYPE)) return;
    const declaration = symbol.declarations?.find(isOurs);
    if (declaration === undefined) return;
    const declaredIn = relative(ROOT, declaration.getSourceFile().fileName);
    missing.set(symbol, { name: symbol.name, declaredIn, mentionedBy });
    for (const each of symbol.declarations ?? []) visit(each, symbol.name);
  }
}

const NAMED_TYPE =
  ts.SymbolFlags.Interface | ts.SymbolFlags.TypeAlias | ts.SymbolFlags.Class | ts.SymbolFlags.Enum;

function isOurs(declaration: ts.Declaration): boolean {
  const { fileName } = declaration.getSourceFile();
  return fileName.startsWith(join(ROOT, 'packages')) && !fileName.includes('/node_modules/');
}

function isHidden(node: ts.Node): boolean {
  if (ts.isClassElement(node) && node.name !== undefined && ts.isPrivateIdentifier(node.name)) return true;
  const isPrivate =
    ts.canHaveModifiers(node) &&
    ts.getModifiers(node)?.some(({ kind }) => kind === ts.SyntaxKind.PrivateKeyword) === true;
  return isPrivate || ts.getJSDocTags(node).some(({ tagName }) => tagName.text === 'internal');
}

/** A variable, property or function whose type is inferred. */
function isUntyped(node: ts.Node): boolean {
  if (ts.isConstructorDeclaration(node) || ts.isSetAccessor(node)) return false;
  const hasType = ts.isVariableDeclaration(node) || ts.isPropertyDeclaration(node) || ts.isFunctionLike(node);
  return hasType && node.type === undefined;
}

function fail(message: string | ts.DiagnosticMessageChain): never {
  throw new Error(ts.flattenDiagnosticMessageText(message, '\n'));
}

let passed = 0;
let failed = 0;
for (const [name, files] of Object.entries(PACKAGES)) {
  const { exported, missing } = missingTypes(name, files);
  passed += exported;
  failed += missing.length;
  for (const { name: type, declaredIn, mentionedBy } of missing)
    console.error(`@parlance/${name} does not export ${type} (${declaredIn}), which ${mentionedBy} mentions`);
}
console.log(`${passed} passed, ${failed} failed`);
process.exitCode = failed === 0 ? 0 : 1;
