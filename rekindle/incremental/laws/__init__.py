"""One step of algorithm 4.6 for each file, with the law it rests on."""
