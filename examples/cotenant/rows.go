package main

import (
	"context"
	_ "embed"
	"errors"
	"fmt"

	"github.com/cotenant/cotenant/decision/predict/profile"
)

//go:embed usage/rows.txt
var rowsUsage string

func runRows(_ context.Context, args []string, std stdio) error {
	fl := flagSet("rows")
	schema := fl.Bool("schema", false, "print the JSON Schema of a file of rows and exit")
	switch err := parse(fl, args, rowsUsage, 2, std); {
	case err != nil:
		return err
	case *schema:
		return printText(std.out, string(profile.RowSchema()))
	case fl.Arg(0) != "check" || fl.NArg() != 2:
		return badInput(errors.New("give check and a file of rows"))
	}
	rows, err := profile.LoadRows(fl.Arg(1))
	if err != nil {
		return badInput(err)
	}
	if err := rows.CheckShared(); err != nil {
		return exitWith(exitNo, err)
	}
	return printText(std.out, fmt.Sprintf("%d rows, fit to be given to others\n", len(rows)))
}
