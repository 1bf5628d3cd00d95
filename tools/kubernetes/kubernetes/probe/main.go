// What a check runs inside the cluster: it answers, asks, looks up and reads, and says what it sees.
//
// One static program without a shell beside it, so that a check's pod holds nothing but what the check needs.
package main

import (
	"fmt"
	"io"
	"os"
	"os/signal"
	"sort"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// version is set by the linker: the digest of the sources, as in the image's tag.
var version = "unknown"

var commands = map[string]func(arguments []string) error{
	"connect": connect,
	"devices": devices,
	"get":     get,
	"lookup":  lookup,
	"read":    readFile,
	"serve":   serve,
	"sleep":   sleep,
	"version": tellVersion,
	"write":   writeFile,
}

func main() {
	if len(os.Args) < 2 || commands[os.Args[1]] == nil {
		fmt.Fprintf(os.Stderr, "probe: which of these? %s\n", strings.Join(names(), ", "))
		os.Exit(2)
	}
	if err := commands[os.Args[1]](os.Args[2:]); err != nil {
		fmt.Fprintf(os.Stderr, "probe %s: %v\n", os.Args[1], err)
		os.Exit(1)
	}
}

func names() []string {
	var all []string
	for name := range commands {
		all = append(all, name)
	}
	sort.Strings(all)
	return all
}

// exactly answers the arguments if there are as many as the words of the usage.
func exactly(arguments []string, usage string) ([]string, error) {
	if len(arguments) != len(strings.Fields(usage)) {
		return nil, fmt.Errorf("needs exactly: %s", usage)
	}
	return arguments, nil
}

// asked answers an argument and the time-out that may stand before or after it.
func asked(arguments []string, usage string) (string, time.Duration, error) {
	rest, said, err := option(arguments, "timeout", "3s")
	if err != nil {
		return "", 0, err
	}
	timeout, err := time.ParseDuration(said)
	if err != nil {
		return "", 0, fmt.Errorf("--timeout %s: not a duration such as 3s", said)
	}
	if _, err := exactly(rest, usage); err != nil {
		return "", 0, err
	}
	return rest[0], timeout, nil
}

// option takes --name VALUE or --name=VALUE out of the arguments, wherever it stands: package flag ends at the first word without a dash.
func option(arguments []string, name, value string) (rest []string, said string, err error) {
	for index := 0; index < len(arguments); index++ {
		word := arguments[index]
		switch {
		case word == "--"+name && index+1 < len(arguments):
			index++
			value = arguments[index]
		case strings.HasPrefix(word, "--"+name+"="):
			value = strings.TrimPrefix(word, "--"+name+"=")
		case strings.HasPrefix(word, "--"):
			return nil, "", fmt.Errorf("%s: the only option here is --%s VALUE", word, name)
		default:
			rest = append(rest, word)
		}
	}
	return rest, value, nil
}

// ended is told the first signal that asks the program to end; process 1 of a container gets none by default.
func ended() <-chan os.Signal {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	return signals
}

func sleep(arguments []string) error {
	words, err := exactly(arguments, "SECONDS")
	if err != nil {
		return err
	}
	seconds, err := strconv.ParseFloat(words[0], 64)
	if err != nil {
		return fmt.Errorf("%s: not a number of seconds", words[0])
	}
	select {
	case <-time.After(time.Duration(seconds * float64(time.Second))):
	case <-ended():
	}
	return nil
}

func tellVersion([]string) error {
	fmt.Println(version)
	return nil
}

func writeFile(arguments []string) error {
	words, err := exactly(arguments, "PATH TEXT")
	if err != nil {
		return err
	}
	return os.WriteFile(words[0], []byte(words[1]+"\n"), 0o644)
}

func readFile(arguments []string) error {
	words, err := exactly(arguments, "PATH")
	if err != nil {
		return err
	}
	file, err := os.Open(words[0])
	if err != nil {
		return err
	}
	defer file.Close()
	_, err = io.Copy(os.Stdout, file)
	return err
}
