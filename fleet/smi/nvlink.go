package smi

var nvlinkOptions = spelling{
	"-s": {"-s", false}, "--status": {"-s", false},
	"-i": {"-i", true}, "--id": {"-i", true},
	"-h": {"-h", false}, "--help": {"-h", false},
}

// nvlink prints the state of every link. A GPU whose links are down, or that has none, is left
// out.
func (r *run) nvlink(args []string) *failure {
	s, err := subOptions(args, nvlinkOptions)
	if err != nil {
		return err
	}
	if !s.has("-s") || s.has("-h") {
		r.print(nvlinkUsage)
		return nil
	}
	if r.host.Driver.Version == "" {
		return noDriver()
	}
	gpus, err := r.views(s.ids())
	if err != nil {
		return err
	}
	for _, g := range gpus {
		if !g.Linked() {
			continue
		}
		r.printf("GPU %d: %s (UUID: %s)\n", g.shown, g.Model.Product, g.UUID)
		for link := range g.Model.NVLinks {
			r.printf("\t Link %d: %v GB/s\n", link, float64(g.Model.LinkMBps)/1000)
		}
	}
	return nil
}
