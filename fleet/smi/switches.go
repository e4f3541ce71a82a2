package smi

// option is what a switch means, and whether a value follows it.
type option struct {
	key   string
	value int // noValue, needsValue or mayHaveValue
}

const (
	noValue = iota
	needsValue
	mayHaveValue
)

// flags are the options this program knows, in every spelling.
var flags = map[string]option{
	"-h": {string(verbHelp), noValue}, "--help": {string(verbHelp), noValue},
	"--version": {string(verbVersion), noValue},
	"-L":        {string(verbList), noValue}, "--list-gpus": {string(verbList), noValue},
	"-B": {string(verbExcluded), noValue}, "--list-excluded-gpus": {string(verbExcluded), noValue},
	"-q": {string(verbLog), noValue}, "--query": {string(verbLog), noValue},
	"--query-gpu":               {string(verbQueryGPU), needsValue},
	"--query-compute-apps":      {string(verbQueryApps), needsValue},
	"--help-query-gpu":          {string(verbHelpQueryGPU), noValue},
	"--help-query-compute-apps": {string(verbHelpQueryApps), noValue},
	"-i":                        {"id", needsValue}, "--id": {"id", needsValue},
	"-d": {"display", needsValue}, "--display": {"display", needsValue},
	"-x": {"xml", noValue}, "--xml-format": {"xml", noValue},
	"-l": {"loop", mayHaveValue}, "--loop": {"loop", mayHaveValue},
	"-lms": {"loop-ms", needsValue}, "--loop-ms": {"loop-ms", needsValue},
	"--format": {"format", needsValue},
	"-mig":     {string(verbMIG), needsValue}, "--multi-instance-gpu": {string(verbMIG), needsValue},
}

// unavailable are options of the real program that would change a GPU, write a file or show
// what is not simulated.
var unavailable = map[string]bool{
	"-pm": true, "--persistence-mode": true, "-e": true, "--ecc-config": true, "-p": true, "--reset-ecc-errors": true,
	"-c": true, "--compute-mode": true, "--gom": true, "-r": true, "--gpu-reset": true, "-vm": true, "--virt-mode": true,
	"-lgc": true, "--lock-gpu-clocks": true, "-rgc": true, "--reset-gpu-clocks": true,
	"-lmc": true, "--lock-memory-clocks": true, "-rmc": true, "--reset-memory-clocks": true,
	"-ac": true, "--applications-clocks": true, "-rac": true, "--reset-applications-clocks": true,
	"-pl": true, "--power-limit": true, "-am": true, "--accounting-mode": true,
	"-f": true, "--filename": true, "-u": true, "--unit": true, "--dtd": true, "-col": true, "--columns": true,
	"--query-supported-clocks": true, "--query-accounted-apps": true, "--query-retired-pages": true, "--query-remapped-rows": true,
}

// companions are the options each verb can be combined with.
var companions = map[verb][]string{
	verbSummary:   {"id", "loop", "loop-ms"},
	verbLog:       {"id", "loop", "loop-ms", "display", "xml"},
	verbMIG:       {"id"},
	verbQueryGPU:  {"id", "loop", "loop-ms", "format"},
	verbQueryApps: {"id", "loop", "loop-ms", "format"},
}
