package shell

import (
	"context"
	"sync"
)

// command is a built-in command.
type command struct {
	name string
	// flags lists its options, one letter each; a letter followed by a colon takes a value.
	// A leading + stops at the first argument that is no option, a leading = leaves all
	// arguments to the command.
	flags string
	// usage is what follows the name in a usage line.
	usage string
	run   func(ctx context.Context, c *call) int
}

// builtin is the table of commands by name. It never changes once made.
var builtin = sync.OnceValue(func() map[string]command {
	table := map[string]command{}
	for _, group := range [][]command{
		shellCommands(), fileCommands(), listCommands(), textCommands(), filterCommands(), systemCommands(),
		runCommands(), digestCommands(), netCommands(), archiveCommands(),
	} {
		for _, cmd := range group {
			table[cmd.name] = cmd
		}
	}
	return table
})

// start parses the command's options and runs it.
func (cmd command) start(ctx context.Context, c *call) int {
	if len(cmd.flags) > 0 && cmd.flags[0] == '=' {
		return cmd.run(ctx, c)
	}
	opts, args, err := parseFlags(cmd.flags, c.args)
	if err != nil {
		c.errorf("%v", err)
		c.printErr("usage: " + cmd.name + " " + cmd.usage + "\n")
		return 1
	}
	c.opts, c.args = opts, args
	return cmd.run(ctx, c)
}
