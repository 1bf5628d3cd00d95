package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"sort"
	"strings"
	"time"
)

// serve answers who it is, until it is asked to end: connections that are still open are cut.
func serve(arguments []string) error {
	rest, port, err := option(arguments, "port", "8080")
	if err != nil {
		return err
	}
	if len(rest) > 0 {
		return fmt.Errorf("%s: takes nothing but --port", strings.Join(rest, " "))
	}
	listener, err := net.Listen("tcp", net.JoinHostPort("", port))
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/{$}", func(answer http.ResponseWriter, _ *http.Request) {
		hostname, _ := os.Hostname()
		fmt.Fprint(answer, hostname)
	})
	mux.HandleFunc("/whoami", func(answer http.ResponseWriter, _ *http.Request) {
		hostname, _ := os.Hostname()
		answer.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(answer).Encode(map[string]any{"hostname": hostname, "addresses": addresses()})
	})
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	stop := ended()
	go func() {
		<-stop
		_ = server.Close()
	}()
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// addresses answers this container's own, without the loopback's.
func addresses() []string {
	found := []string{}
	all, _ := net.InterfaceAddrs()
	for _, each := range all {
		if network, ok := each.(*net.IPNet); ok && network.IP.IsGlobalUnicast() {
			found = append(found, network.IP.String())
		}
	}
	sort.Strings(found)
	return found
}

// get prints what an address answers; an answer that is no success is an error, its body told.
func get(arguments []string) error {
	address, timeout, err := asked(arguments, "URL")
	if err != nil {
		return err
	}
	// No proxy: what is asked is inside the cluster, and the answer must be its own.
	client := &http.Client{Timeout: timeout, Transport: &http.Transport{}}
	answer, err := client.Get(address)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		return err
	}
	if answer.StatusCode/100 != 2 {
		return fmt.Errorf("%s: %s: %s", address, answer.Status, strings.TrimSpace(string(body)))
	}
	_, err = os.Stdout.Write(body)
	return err
}

func connect(arguments []string) error {
	address, timeout, err := asked(arguments, "HOST:PORT")
	if err != nil {
		return err
	}
	connection, err := net.DialTimeout("tcp", address, timeout)
	if err != nil {
		return err
	}
	return connection.Close()
}

func lookup(arguments []string) error {
	name, timeout, err := asked(arguments, "NAME")
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	found, err := net.DefaultResolver.LookupHost(ctx, name)
	if err != nil {
		return err
	}
	sort.Strings(found)
	fmt.Println(strings.Join(found, "\n"))
	return nil
}
