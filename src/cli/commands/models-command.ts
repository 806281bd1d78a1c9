/** `wavepool models`: which models there are, getting them, and what workers do with them. */
import type { Command } from 'commander';
import type { CliContext } from '../context.ts';
import { addControlCommands } from './control-commands.ts';
import { addImportCommand, addPullCommand } from './models-command-get.ts';
import { addListCommand, addRemoveCommand, addShowCommand } from './models-command-show.ts';
import { addValidateCommand } from './validate-command.ts';

export function addModelsCommand(program: Command, context: CliContext): void {
  const models = program
    .command('models')
    .description('list, get, inspect, remove, load, unload and reconfigure models')
    .addHelpText(
      'after',
      `
A model is a folder in the models directory. \`run\` and \`worker\` pull what is missing by themselves.

  wavepool models list                          what there is, and what is installed
  wavepool models show whisper-tiny.en          everything about one model
  wavepool models pull whisper-tiny.en          get one
  wavepool models import ggml-medium.bin        install a file that you have
  wavepool models remove whisper-tiny.en        free the disk`,
    );
  addListCommand(models, context);
  addShowCommand(models, context);
  addPullCommand(models, context);
  addImportCommand(models, context);
  addRemoveCommand(models, context);
  addControlCommands(models, context);
  addValidateCommand(models, context);
}
