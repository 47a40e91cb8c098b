import { dirname, resolve } from 'node:path';
import ts from 'typescript';

/** The names of an interface's members, inherited ones included. @throws {Error} if `file` declares none of that name. */
export function membersOf(file: string, name: string, tsconfig: string): readonly string[] {
  const { config } = ts.readConfigFile(tsconfig, ts.sys.readFile);
  const { options } = ts.parseJsonConfigFileContent(config, ts.sys, dirname(resolve(tsconfig)));
  const program = ts.createProgram([file], { ...options, noEmit: true, types: [] });
  const checker = program.getTypeChecker();
  const declared = program
    .getSourceFile(file)
    ?.statements.find(
      (statement): statement is ts.InterfaceDeclaration | ts.TypeAliasDeclaration =>
        (ts.isInterfaceDeclaration(statement) || ts.isTypeAliasDeclaration(statement)) &&
        statement.name.text === name,
    );
  if (declared === undefined) throw new Error(`${file} declares no ${name}`);
  return checker.getPropertiesOfType(checker.getTypeAtLocation(declared.name)).map((member) => member.name);
}
