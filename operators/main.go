package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
)

const usage = `usage: berth-operators manifests|run --with NAME,...

  manifests --url URL --ca FILE --user NAME   print what has to be installed, as a JSON list
  run --kubeconfig FILE --cert FILE --key FILE
                                              run the controllers; file 3 is the listener of their webhooks, and the
                                              process ends when file 4 is closed

$BERTH_OPERATORS_SECRET is the first part of every webhook's path: whoever does not know it is told nothing.
`

// secretName is the variable with the secret. Arguments can be read by every user of the machine, variables cannot.
const secretName = "BERTH_OPERATORS_SECRET"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := start(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "berth-operators:", err)
		os.Exit(1)
	}
}

func start(ctx context.Context, args []string, out io.Writer) error {
	if len(args) == 0 {
		return fmt.Errorf("no command is given\n%s", usage)
	}
	f := flag.NewFlagSet(args[0], flag.ContinueOnError)
	f.SetOutput(io.Discard)
	with := f.String("with", "", "")
	secret := os.Getenv(secretName)
	switch args[0] {
	case "manifests":
		to := target{secret: secret}
		f.StringVar(&to.url, "url", "", "")
		f.StringVar(&to.user, "user", "", "")
		ca := f.String("ca", "", "")
		list, err := parse(f, args[1:], with)
		if err != nil {
			return err
		}
		if to.ca, err = os.ReadFile(*ca); err != nil {
			return err
		}
		return printManifests(out, list, to)
	case "run":
		o := runOptions{secret: secret}
		f.StringVar(&o.kubeconfig, "kubeconfig", "", "")
		f.StringVar(&o.cert, "cert", "", "")
		f.StringVar(&o.key, "key", "", "")
		var err error
		if o.operators, err = parse(f, args[1:], with); err != nil {
			return err
		}
		return run(ctx, o)
	}
	return fmt.Errorf("unknown command %q\n%s", args[0], usage)
}

func parse(f *flag.FlagSet, args []string, with *string) ([]operator, error) {
	if err := f.Parse(args); err != nil {
		return nil, fmt.Errorf("%w\n%s", err, usage)
	}
	return named(*with)
}

// named are the operators of a list such as "jobset,lws", each once, in the order of names.
func named(list string) ([]operator, error) {
	var known []string
	for _, o := range all {
		known = append(known, o.name)
	}
	wanted := strings.Split(list, ",")
	for _, name := range wanted {
		if !slices.Contains(known, name) {
			return nil, fmt.Errorf("there is no operator %q: choose from %s", name, strings.Join(known, ", "))
		}
	}
	for _, o := range all {
		if o.needs != "" && slices.Contains(wanted, o.name) {
			wanted = append(wanted, o.needs)
		}
	}
	return slices.DeleteFunc(slices.Clone(all), func(o operator) bool { return !slices.Contains(wanted, o.name) }), nil
}

func printManifests(out io.Writer, list []operator, to target) error {
	var objects []map[string]any
	for _, o := range list {
		more, err := o.manifests(to)
		if err != nil {
			return fmt.Errorf("%s: %w", o.name, err)
		}
		objects = append(objects, more...)
	}
	return json.NewEncoder(out).Encode(objects)
}
