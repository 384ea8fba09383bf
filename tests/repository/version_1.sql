-- Written by weft before version 2 of the database: run 1 has completed, run 2 was interrupted.
BEGIN TRANSACTION;
CREATE TABLE entry (
        execution INTEGER NOT NULL,
        number INTEGER NOT NULL,
        record TEXT NOT NULL,
        PRIMARY KEY (execution, number)
    ) WITHOUT ROWID;
INSERT INTO "entry" VALUES(1,0,'{"n":0,"now":0.0025674692369648255,"event":["Submitted",{"run":0,"workflow":"tiny","owner":"root"}],"commands":[["Replan",{"run":0,"version":0,"reason":"submitted"}]]}');
INSERT INTO "entry" VALUES(1,1,'{"n":1,"now":0.06741338523715967,"event":["PlanReady",{"plan":"fedce3c9b9e480ae","run":0,"version":0,"steps":1}],"commands":[["AdoptPlan",{"run":0,"plan":"fedce3c9b9e480ae","finish_s":2.002567469236965}],["Assign",{"attempt":0,"run":0,"task":0,"machine":0,"nodes":1,"count":1,"reserve":false,"order":0.0025674692369648255,"reason":"planned"}],["Start",{"attempt":0,"run":0,"task":0,"machine":0,"nodes":1,"count":1}]]}');
INSERT INTO "entry" VALUES(1,2,'{"n":2,"now":0.28788917423662497,"event":["Ended",{"attempt":0,"work_done":1.0}],"commands":[["Settle",{"run":0,"task":0,"state":"COMPLETED"}],["Assign",{"attempt":1,"run":0,"task":1,"machine":0,"nodes":1,"count":1,"reserve":false,"order":1.0025674692369648,"reason":"planned"}],["Start",{"attempt":1,"run":0,"task":1,"machine":0,"nodes":1,"count":1}]]}');
INSERT INTO "entry" VALUES(1,3,'{"n":3,"now":0.3206164992370759,"event":["Ended",{"attempt":1,"work_done":1.0}],"commands":[["StageOut",{"attempt":1,"machine":0}]]}');
INSERT INTO "entry" VALUES(1,4,'{"n":4,"now":0.3256561402376974,"event":["StagedOut",{"attempt":1}],"commands":[["Settle",{"run":0,"task":1,"state":"COMPLETED"}],["Finish",{"run":0,"outcome":"completed"}]]}');
INSERT INTO "entry" VALUES(2,0,'{"n":0,"now":0.030464684423350263,"event":["Submitted",{"run":0,"workflow":"slow","owner":"root"}],"commands":[["Replan",{"run":0,"version":0,"reason":"submitted"}]]}');
INSERT INTO "entry" VALUES(2,1,'{"n":1,"now":0.06136558742218767,"event":["PlanReady",{"plan":"44b4acdbef88f412","run":0,"version":0,"steps":1}],"commands":[["AdoptPlan",{"run":0,"plan":"44b4acdbef88f412","finish_s":2.0304646844233503}],["Assign",{"attempt":0,"run":0,"task":0,"machine":0,"nodes":1,"count":1,"reserve":false,"order":0.030464684423350263,"reason":"planned"}],["Start",{"attempt":0,"run":0,"task":0,"machine":0,"nodes":1,"count":1}]]}');
INSERT INTO "entry" VALUES(2,2,'{"n":2,"now":0.18788945942287683,"event":["Ended",{"attempt":0,"work_done":1.0}],"commands":[["Settle",{"run":0,"task":0,"state":"COMPLETED"}],["Assign",{"attempt":1,"run":0,"task":1,"machine":0,"nodes":1,"count":1,"reserve":false,"order":1.0304646844233503,"reason":"planned"}],["Start",{"attempt":1,"run":0,"task":1,"machine":0,"nodes":1,"count":1}]]}');
INSERT INTO "entry" VALUES(2,3,'{"n":3,"now":605.5223893754228,"event":["Ended",{"attempt":1,"exit_code":99,"story":"the engine was stopped"}],"commands":[["Settle",{"run":0,"task":1,"state":"READY","reason":"the engine was stopped: it will run again","again":true}],["Assign",{"attempt":2,"run":0,"task":1,"machine":0,"nodes":1,"count":1,"reserve":false,"order":1.0304646844233503,"reason":"planned"}],["Start",{"attempt":2,"run":0,"task":1,"machine":0,"nodes":1,"count":1,"tries":2}]]}');
CREATE TABLE execution (
        number INTEGER PRIMARY KEY,
        fingerprint TEXT NOT NULL,
        state TEXT NOT NULL,
        owner TEXT NOT NULL,
        command TEXT NOT NULL,
        version TEXT NOT NULL,
        started_at_s REAL NOT NULL,
        ended_at_s REAL,
        header TEXT NOT NULL
    );
INSERT INTO "execution" VALUES(1,'0ab278d874cc4dc00c4110d7b11fa23128cde8b2','completed','root','["weft","run","tiny.yaml","--on","m.yaml","-q"]','0.1.0',1.7949396690875148773e+09,1.79493966941366553304e+09,'{"kind":"weft-journal","schema":2,"weft":"0.1.0","policy":"plan","planner":"heft","seed":0,"scenario":"","owner":"root","command":["weft","run","tiny.yaml","--on","m.yaml","-q"],"started_at_s":1794939669.0875149,"folders":{"tiny":"."},"settings":{"begins_at_once":true,"contract":null,"grace_s":null,"iteration_limit_s":null,"belief_s":600.0,"poll_every_s":30.0,"migrate":"pays","gain":0.2,"gain_growth":1.5,"checkpoints":true,"restart_cost_s":0.0,"better_every_s":null,"suspension_timeout_s":600.0,"waiting_timeout_s":null,"ladder_every_s":null,"discover_every_s":null,"fetch_every_s":null,"authorise":false,"bound_ancestors":"lost","retries":null,"retries_by_cause":{},"growth":2.0,"on_failure":"stop","brings_results":true,"strict_plan":false,"replanning":null},"platform":{"weft":1,"name":"m","machines":{"m":{"memory":1000000000.0,"backend":{"kind":"local"}}}},"workflows":{"tiny":{"weft":1,"name":"tiny","tasks":{"a":{"command":"echo made a; echo hello > x","outputs":["x"]},"b":{"command":"cat x > y; echo more >> y","inputs":["x"],"outputs":["y"]}}}}}');
INSERT INTO "execution" VALUES(2,'02526777cd8105ca7614cbab2d844573567e0b68','interrupted','root','["weft","run","slow.yaml","--on","m.yaml","-q"]','0.1.0',1.79493967300965547558e+09,NULL,'{"kind":"weft-journal","schema":2,"weft":"0.1.0","policy":"plan","planner":"heft","seed":0,"scenario":"","owner":"root","command":["weft","run","slow.yaml","--on","m.yaml","-q"],"started_at_s":1794939673.0096555,"folders":{"slow":"."},"settings":{"begins_at_once":true,"contract":null,"grace_s":null,"iteration_limit_s":null,"belief_s":600.0,"poll_every_s":30.0,"migrate":"pays","gain":0.2,"gain_growth":1.5,"checkpoints":true,"restart_cost_s":0.0,"better_every_s":null,"suspension_timeout_s":600.0,"waiting_timeout_s":null,"ladder_every_s":null,"discover_every_s":null,"fetch_every_s":null,"authorise":false,"bound_ancestors":"lost","retries":null,"retries_by_cause":{},"growth":2.0,"on_failure":"stop","brings_results":true,"strict_plan":false,"replanning":null},"platform":{"weft":1,"name":"m","machines":{"m":{"memory":1000000000.0,"backend":{"kind":"local"}}}},"workflows":{"slow":{"weft":1,"name":"slow","tasks":{"first":{"command":"echo one > one","outputs":["one"]},"second":{"command":"echo waiting; cat one > two","inputs":["one"],"outputs":["two"]}}}}}');
CREATE TABLE kept (
        execution INTEGER NOT NULL,
        key TEXT NOT NULL,
        value TEXT NOT NULL,
        PRIMARY KEY (execution, key)
    ) WITHOUT ROWID;
INSERT INTO "kept" VALUES(1,'arrivals','[[0.0, 0, "tiny", "root"]]');
INSERT INTO "kept" VALUES(1,'fresh','0');
INSERT INTO "kept" VALUES(1,'plan_steps','');
INSERT INTO "kept" VALUES(1,'plan_time_s','');
INSERT INTO "kept" VALUES(1,'promise of run 0','{"planned_s": 2.0, "p50_s": null, "p90_s": null, "least_s": null, "cost_p50": null, "cost_p90": null, "least_cost": null, "tasks": 2, "untimed": 2, "untimed_kinds": ["a", "b"], "exact": 2, "open_loops": []}');
INSERT INTO "kept" VALUES(1,'token','573c7ee6e600fd38a3b808a9700b9f693481ccd846edca794c48655c8a5441d7');
INSERT INTO "kept" VALUES(2,'arrivals','[[0.0, 0, "slow", "root"]]');
INSERT INTO "kept" VALUES(2,'fresh','0');
INSERT INTO "kept" VALUES(2,'plan_steps','');
INSERT INTO "kept" VALUES(2,'plan_time_s','');
INSERT INTO "kept" VALUES(2,'promise of run 0','{"planned_s": 2.0, "p50_s": null, "p90_s": null, "least_s": null, "cost_p50": null, "cost_p90": null, "least_cost": null, "tasks": 2, "untimed": 2, "untimed_kinds": ["first", "second"], "exact": 2, "open_loops": []}');
INSERT INTO "kept" VALUES(2,'token','86a1bc311f63cf431b37af1a4cbfb09cf045f27059faf69d3abfba652556aeff');
CREATE TABLE made_file (
        product INTEGER NOT NULL,
        position INTEGER NOT NULL,
        name TEXT NOT NULL,
        size_bytes INTEGER NOT NULL,
        digest TEXT NOT NULL,
        modified_ns INTEGER NOT NULL,
        PRIMARY KEY (product, position)
    ) WITHOUT ROWID;
INSERT INTO "made_file" VALUES(1,0,'x',6,'d2f799bb9610968a2efa8f7682d5f2f1d45163d7',1794939669359581796);
INSERT INTO "made_file" VALUES(2,0,'y',11,'79d758ae06eaa3e195145ab20ba6a288d93a0769',1794939669380322403);
INSERT INTO "made_file" VALUES(3,0,'one',4,'642265f1740b6be6ce414582edef78b3ddbcae8c',1794939673178014841);
CREATE TABLE plan (
        execution INTEGER NOT NULL,
        key TEXT NOT NULL,
        record TEXT NOT NULL,
        PRIMARY KEY (execution, key)
    );
INSERT INTO "plan" VALUES(1,'fedce3c9b9e480ae','{"planner":"heft","steps":1,"lines":[["a",0,1,0.0025674692369648255,1.0025674692369648],["b",0,1,1.0025674692369648,2.002567469236965]],"running_until_s":0.0,"moving":[],"again":[]}');
INSERT INTO "plan" VALUES(2,'44b4acdbef88f412','{"planner":"heft","steps":1,"lines":[["first",0,1,0.030464684423350263,1.0304646844233503],["second",0,1,1.0304646844233503,2.0304646844233503]],"running_until_s":0.0,"moving":[],"again":[]}');
CREATE TABLE product (
        number INTEGER PRIMARY KEY,
        execution INTEGER NOT NULL,
        run INTEGER NOT NULL,
        task INTEGER NOT NULL,
        name TEXT NOT NULL,
        kind TEXT NOT NULL,
        workflow TEXT NOT NULL,
        attempt INTEGER NOT NULL,
        iteration INTEGER NOT NULL,
        machine TEXT NOT NULL,
        directory TEXT NOT NULL,
        exit_code INTEGER NOT NULL,
        result TEXT NOT NULL,
        fingerprint TEXT NOT NULL,
        parts TEXT NOT NULL,
        seconds REAL NOT NULL
    );
INSERT INTO "product" VALUES(1,1,0,0,'a','a','tiny',0,1,'m','.weft/sandbox/m/1/0',0,'{}','6a4179f433292deb65e5f7ddf8a7adfddd24aec1','{"task":":a:1","command":"echo made a; echo hello > x","outputs":"x"}',1.5037815999676240608e-02);
INSERT INTO "product" VALUES(2,1,0,1,'b','b','tiny',1,1,'m','.weft/sandbox/m/1/1',0,'{}','215199adbd8aa38948d31b24725f88322daaf057','{"task":":b:1","command":"cat x > y; echo more >> y","outputs":"y","inputs":"{\"x\": \"d2f799bb9610\"}"}',1.44774639993556775152e-02);
INSERT INTO "product" VALUES(3,2,0,0,'first','first','slow',0,1,'m','.weft/sandbox/m/2/0',0,'{}','cc638457b7ec3ba98238a03c5abc141f2d86721c','{"task":":first:1","command":"echo one > one","outputs":"one"}',6.25345799926435574889e-03);
CREATE TABLE request (
        number INTEGER PRIMARY KEY AUTOINCREMENT,
        what TEXT NOT NULL,
        execution INTEGER NOT NULL,
        run INTEGER,
        task TEXT,
        machine TEXT,
        owner TEXT NOT NULL,
        asked_at_s REAL NOT NULL,
        answer TEXT,
        granted INTEGER
    );
CREATE TABLE run (
        number INTEGER PRIMARY KEY,
        execution INTEGER NOT NULL,
        position INTEGER NOT NULL,
        workflow TEXT NOT NULL,
        owner TEXT NOT NULL,
        state TEXT NOT NULL,
        reason TEXT NOT NULL,
        tasks INTEGER NOT NULL,
        started_at_s REAL NOT NULL,
        ended_at_s REAL,
        predicted_p50_s REAL,
        predicted_p90_s REAL,
        UNIQUE (execution, position)
    );
INSERT INTO "run" VALUES(1,1,0,'tiny','root','completed','',2,1.79493966909008240704e+09,1.79493966941317105293e+09,NULL,NULL);
INSERT INTO "run" VALUES(2,2,0,'slow','root','interrupted','',2,1.79493967304012012487e+09,NULL,NULL,NULL);
CREATE TABLE snapshot (
        execution INTEGER PRIMARY KEY,
        entry INTEGER NOT NULL,
        state TEXT NOT NULL
    );
CREATE INDEX execution_by_fingerprint ON execution (fingerprint);
CREATE INDEX product_by_task ON product (execution, run, task);
CREATE INDEX product_by_name ON product (workflow, name);
CREATE INDEX product_by_fingerprint ON product (fingerprint) WHERE fingerprint <> '';
CREATE INDEX request_open ON request (number) WHERE answer IS NULL;
DELETE FROM "sqlite_sequence";
COMMIT;
